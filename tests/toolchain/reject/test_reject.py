"""A rule of rejection for a network: its evidence, its threshold and temperature, and what it leaves as it was."""

import hashlib
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.file import decode, encode, load
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import look_up
from edgemeta.model.self_test import flat, with_self_test
from edgemeta.model.tasks import Classification, Rejection
from edgemeta.model.zoo import find
from edgemeta.plugins.registry import choose
from edgemeta.tasks.classification import evidence_of, logits_of, unknown
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.reject.evidence import fit_row, without_rejection
from edgemeta.toolchain.reject.made_foreign import KINDS, make_foreign
from edgemeta.toolchain.reject.reject import Rejected, reject
from tests.tasks.detection.models import detection_model

PLAIN = without_rejection(load(find("resnet8-cifar10")))


def smooth(count: int, seed: int) -> NDArray[np.uint8]:
    coarse = np.random.default_rng(seed).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)
    return coarse.repeat(8, axis=1).repeat(8, axis=2)


def striped(count: int, seed: int) -> NDArray[np.uint8]:
    columns = np.random.default_rng(seed).integers(0, 256, (count, 1, 16, 3), dtype=np.uint8)
    return columns.repeat(32, axis=1).repeat(2, axis=2)


def labelled(count: int, seed: int) -> Dataset:
    """Smooth images with the labels that the network gives them, but for every seventh."""
    x = smooth(count, seed)
    with closing(choose("cpu").compile(PLAIN, {})) as session:
        y = logits_of(session.run(np.ascontiguousarray(look_up(PLAIN.preprocessing.table, x)))).argmax(axis=1)
    y[::7] = (y[::7] + 1) % 10
    return Dataset(x, y.astype(np.uint8))


HELD_OUT, KNOWN = labelled(120, 1), Dataset(smooth(200, 2), np.zeros(200, np.uint8))


@pytest.fixture(scope="module")
def made() -> tuple[Model, Rejected, Any]:
    stripes, others = ArrayFrames(striped(80, 3), "stripes"), ArrayFrames(striped(80, 4), "other stripes")
    return reject(PLAIN, HELD_OUT, KNOWN, [stripes], [others], most_lost=0.05, made=60)


def test_the_logits_stay_and_every_backend_has_the_evidence(made) -> None:
    model, _, integers = made
    batch = look_up(model.preprocessing.table, HELD_OUT.x[:12])
    outputs = reference.run(model, batch)
    assert np.array_equal(outputs[0], reference.run(PLAIN, batch)[0])
    with closing(choose("cpu").compile(model, {})) as session:
        for mine, other in zip(outputs, session.run(np.ascontiguousarray(batch)), strict=True):
            assert np.array_equal(mine, other)
    assert np.array_equal(integers["held out"].evidence[:12], evidence_of(outputs))


def test_it_tells_known_from_foreign(made) -> None:
    model, report, _ = made
    assert report.lost <= 0.1
    assert report.foreign["stripes"] <= 0.05
    assert report.unseen["other stripes"] <= 0.05
    few = look_up(model.preprocessing.table, np.concatenate([HELD_OUT.x[:6], striped(6, 4)]))
    rejected = unknown(model.task, reference.run(model, few))
    assert rejected[6:].mean() > rejected[:6].mean()
    assert set(report.foreign) == {"stripes", *KINDS}


@pytest.mark.parametrize(
    ("name", "temperature", "before"),
    [
        ("resnet8-cifar10", 1.0227, "899a5127fb65eef57287a1158492597ebd9790dfadf594ead34a67fc090109d0"),
        ("resnet8-cifar10-paper", 0.8772, "a6184a832444dedbbf7ef1f52f7eba068ea27984a8630540902727ac9c349795"),
    ],
)
def test_a_shipped_model_without_its_rule_is_the_file_before(name: str, temperature: float, before: str) -> None:
    """So its logits are those of the file that `quantize` made, whose digest this is, bit for bit."""
    shipped = load(find(name))
    plain = without_rejection(shipped)
    provenance = {key: value for key, value in shipped.provenance.items() if key != "rejection"}
    restored = with_self_test(replace(plain, task=replace(plain.task, temperature=temperature), provenance=provenance))
    assert hashlib.sha256(encode(restored)).hexdigest() == before


def test_the_file_states_rule_origin_and_self_test(made) -> None:
    model, report, _ = made
    restored = decode(encode(model))
    assert restored.task == model.task
    assert model.task.rejection.threshold == report.threshold
    assert model.task.temperature == report.temperature
    assert model.provenance["rejection"]["held_out"] == 120
    assert model.provenance["rejection"]["held_out_pixels_sha256"] == HELD_OUT.sha256()
    assert np.array_equal(model.self_test.expected, flat(reference.run(model, model.self_test.batch)))


def test_a_rule_replaces_another(made) -> None:
    model, report, _ = made
    assert encode(without_rejection(model)) == encode(
        replace(PLAIN, task=replace(PLAIN.task, temperature=report.temperature), provenance=model.provenance)
    )


def test_held_out_images_do_not_teach_the_evidence(made) -> None:
    """The folder of the training has them, too, where `train` took them from it."""
    model, _, _ = made
    both = Dataset(np.concatenate([HELD_OUT.x, KNOWN.x]), np.concatenate([HELD_OUT.y, KNOWN.y]))
    stripes, said = ArrayFrames(striped(80, 3), "stripes"), list[str]()
    same, _, _ = reject(PLAIN, HELD_OUT, both, [stripes], most_lost=0.05, made=60, report=said.append)
    assert same.task == model.task
    assert all(np.array_equal(*pair) for pair in zip(rows_of(same), rows_of(model), strict=True))
    assert said == ["120 of 320 known images are held out, and are not used to learn the evidence"]
    with pytest.raises(QuantizeError, match="all 120 known images are held-out images, too, expected others"):
        reject(PLAIN, HELD_OUT, HELD_OUT, [stripes], made=60)


def rows_of(model: Model) -> list[NDArray[Any]]:
    """The weights of the evidence."""
    return [layer.weights.decode() for layer in model.layers if layer.name in model.outputs[1:]]


def test_without_known_images_the_greatest_logit_decides() -> None:
    model, report, _ = reject(PLAIN, HELD_OUT, most_lost=0.05)
    assert model.task.rejection == Rejection(report.threshold)
    assert model.layers == PLAIN.layers
    assert report.foreign == {}


def test_held_out_images_without_a_mistake_are_no_obstacle() -> None:
    """Their temperature leaves room for a mistake, and one sentence says so."""
    with closing(choose("cpu").compile(PLAIN, {})) as session:
        batch = np.ascontiguousarray(look_up(PLAIN.preprocessing.table, HELD_OUT.x))
        right = logits_of(session.run(batch)).argmax(axis=1).astype(np.uint8)
    said: list[str] = []
    model, report, _ = reject(PLAIN, Dataset(HELD_OUT.x, right), most_lost=0.05, report=said.append)
    assert 0.05 <= model.task.temperature == report.temperature
    assert report.wrong == 0
    (sentence,) = said
    assert sentence.startswith("there is no clear mistake among 11")


def test_other_labels_and_tasks_are_refused() -> None:
    other = replace(PLAIN, task=Classification(tuple("abcdefghij")))
    with pytest.raises(QuantizeError, match=r"the held-out images have the labels airplane, .*, expected a, b, c"):
        reject(other, HELD_OUT)
    with pytest.raises(QuantizeError, match="its task is detection, a rule of rejection is for classes"):
        reject(detection_model("yolox"), HELD_OUT)


@pytest.mark.parametrize("kind", KINDS)
def test_foreign_images_are_made_the_same_again(kind: str) -> None:
    for shape in ((5, 32, 32, 3), (3, 33, 27, 3)):
        known = np.random.default_rng(5).integers(0, 256, shape, dtype=np.uint8)
        first, again = make_foreign(known, kind, 4), make_foreign(known, kind, 4)
        assert (first.shape, first.dtype) == ((4, *shape[1:]), np.uint8)
        assert np.array_equal(first, again)
        assert not np.array_equal(first, make_foreign(known, kind, 4, seed=1))


def test_a_row_equals_gradient_descent() -> None:
    rng = np.random.default_rng(6)
    known, foreign = rng.normal(0, 2, (50, 2)), [rng.normal(1, 2, (30, 2)), rng.normal((3, -1), 2, (20, 2))]
    row = fit_row(known, foreign)
    x = np.concatenate([known, *foreign]) - known.mean(0)
    x = np.column_stack([x / known.std(0), np.ones(100)])
    t = np.repeat([1.0, 0.0], 50)
    weight = np.concatenate([np.full(50, 1 / 100), np.full(30, 1 / 120), np.full(20, 1 / 80)])
    b = np.zeros(3)
    for _ in range(20_000):
        b -= 0.5 * (x.T @ (weight * (1 / (1 + np.exp(-x @ b)) - t)) + 1e-3 * b * [1, 1, 0])
    assert np.allclose(row, b[:2] / known.std(0), atol=1e-6)
