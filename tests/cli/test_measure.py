"""Results of the measuring commands against known figures."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.cli.measure import _RuleOutcomes
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.preprocess import look_up
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Classification, MultiLabel, Rejection
from edgemeta.model.zoo import find
from edgemeta.toolchain.reject.evidence import without_rejection
from tests.tasks.detection.models import detection_model
from tests.tasks.models import vector_model

SHIPPED = "resnet8-cifar10"


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_eval_counts_right_labels(edgemeta_json, labelled: Path, backend: str) -> None:
    result = edgemeta_json("eval", SHIPPED, "--data", labelled, "--backend", backend)
    rejections = result.pop("rejections")
    assert rejections["rejected"] > 90, "squares of noise are foreign to the shipped network"
    assert 0 <= rejections["lost"] <= rejections["rejected"]
    error = result.pop("calibration_error")
    assert (error is None) == (rejections["rejected"] == 100)
    recalls = result.pop("recall").values()
    assert sum(each["images"] for each in recalls) == 40
    assert sum(each["images"] * each["percent"] for each in recalls) / 100 == pytest.approx(30)
    assert result == {"top1": 75.0, "images": 40, "sha256": load(find(SHIPPED)).digest, "backend": backend}


def test_eval_runs_a_float_model(edgemeta_json, labelled: Path) -> None:
    result = edgemeta_json("eval", f"{SHIPPED}-float", "--data", labelled)
    assert (result["backend"], result["calibration_error"]) == ("float32", None)
    assert 60 <= result["top1"] <= 90  # the labels are the integer model's


@pytest.mark.parametrize("isa", supported_isas())
def test_verify_finds_no_mismatch_on_any_instruction_set(edgemeta_json, labelled: Path, isa: str) -> None:
    result = edgemeta_json("verify", SHIPPED, "--data", labelled, "--backend", "cpu", "--isa", isa)
    assert (result["images"], result["mismatches"]) == (40, 0)


def test_verify_counts_the_images_that_a_rule_rejects(edgemeta, edgemeta_json, labelled: Path, tmp_path: Path) -> None:
    """The shipped rule, one that rejects about half of the images, and a model without one."""
    model = load(find(SHIPPED))
    rejected = edgemeta_json("eval", SHIPPED, "--data", labelled)["rejections"]["rejected"]
    result = edgemeta_json("verify", SHIPPED, "--data", labelled, "--backend", "cpu")
    assert (result["rejected"], result["rule_mismatches"]) == (round(rejected * 40 / 100), 0)
    x = np.ascontiguousarray(look_up(model.preprocessing.table, np.load(labelled)["x"]))
    plain = without_rejection(model)
    greatest = np.sort(reference.run(plain, x)[0].max(axis=(1, 2, 3)))
    half = replace(plain, task=replace(plain.task, rejection=Rejection(int(greatest[17]))))
    for name, made in (("half", half), ("plain", plain)):
        save(with_self_test(made), tmp_path / name)
    shown = edgemeta("verify", tmp_path / "half", "--data", labelled, "--backend", "cpu").stdout.splitlines()
    count = int((greatest < greatest[17]).sum())
    assert 10 < count < 20
    assert shown[1] == f"{count} images rejected by the rule, 0 mismatches of the rule"
    assert "rejected" not in edgemeta_json("verify", tmp_path / "plain", "--data", labelled, "--backend", "cpu")


def test_another_outcome_of_the_rule_is_counted() -> None:
    task = Classification(("a", "b"), 1.0, Rejection(100))
    outcomes = _RuleOutcomes(task)
    expected = np.array([[99, 0], [100, 0], [101, 0], [98, 0]], np.int32).reshape(4, 1, 1, 2)
    found = expected.copy()
    found[[0, 2, 3], 0, 0, 0] += np.array([1, -1, 1])
    outcomes.add((found,), (expected,))
    assert (outcomes.rejected, outcomes.mismatches) == (2, 1)


def test_images_of_other_labels_are_refused(edgemeta, one_sentence, tmp_path: Path) -> None:
    path = tmp_path / "two.npz"
    np.savez(path, x=np.zeros((2, 32, 32, 3), np.uint8), y=np.array([0, 11], np.uint8))
    one_sentence(edgemeta("eval", SHIPPED, "--data", path), str(path), "11")


def test_eval_is_for_classification_and_detection(edgemeta, one_sentence, labelled: Path, tmp_path: Path) -> None:
    save(vector_model(MultiLabel(tuple("abc")), 3), tmp_path / "net")
    result = edgemeta("eval", tmp_path / "net", "--data", labelled)
    one_sentence(result, "net: its task is multi-label, accuracy is measured for classification and detection only")


def test_a_detection_is_measured_on_boxes(edgemeta, one_sentence, labelled: Path, tmp_path: Path) -> None:
    save(detection_model("yolox"), tmp_path / "net")
    result = edgemeta("eval", tmp_path / "net", "--data", labelled)
    one_sentence(result, str(labelled), "has no boxes, expected x, boxes, classes, images, labels: images with boxes")


def test_missing_data_is_named(edgemeta, one_sentence, tmp_path: Path) -> None:
    one_sentence(edgemeta("eval", SHIPPED, "--data", tmp_path / "none.npz"), "none.npz")
