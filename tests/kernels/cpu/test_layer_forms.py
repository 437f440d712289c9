"""Forms of convolutions: measured, kept in a file, and used from it."""

import json
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from edgemeta.kernels.cpu.form_file import FormFileError, chosen_forms, keep_forms
from edgemeta.kernels.cpu.layer_forms import NEAR_BYTES, LayerForms, measure_forms
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.layers import TensorType
from edgemeta.plugins.api import OptionError
from edgemeta.plugins.registry import choose
from tests.conformance.networks import Case, NetworkBuilder
from tests.kernels.cpu.exact import assert_equals_reference

ISA = "portable"


@pytest.fixture(scope="module")
def case() -> Case:
    """Two convolutions of 2 x 2 bits, which have three forms everywhere, and an addition that is fused."""
    net = NetworkBuilder("forms", TensorType((6, 6, 16), bits=2, signed=False, scale=0.05))
    weights = partial(net.fixed, bits=2)
    first = net.conv(net.start, 16, weights=weights, output=net.source)
    second = net.conv(first, 16, weights=weights, output=net.source)
    return net.observe(net.add(second, first, multipliers=(1, 1), shift=1))


def layer(halves: dict[str, list[float]], chosen: str = "plain") -> LayerForms:
    return LayerForms("conv", chosen, "", 0, {}, halves)


def test_the_fastest_form_is_clearly_faster_in_both_halves() -> None:
    assert layer({"plain": [10.0, 10.0], "planes": [9.0, 9.4], "bytes": [9.4, 9.4]}).fastest == "planes"
    assert layer({"plain": [10.0, 10.0], "planes": [9.0, 9.6]}).fastest == "plain"
    assert layer({"plain": [10.0, 10.0], "planes": [9.8, 9.8]}).fastest == "plain"
    assert layer({"plain": [4.0, 4.0], "planes": [9.0, 9.0]}, "planes").fastest == "plain"


@pytest.mark.parametrize("cold", [False, True])
def test_every_form_of_every_convolution_is_timed(case: Case, cold: bool) -> None:
    found = {each.step: each for each in measure_forms(case.model, ISA, 1, 4, cold=cold)}
    both = [each for each in found.values() if "planes" in each.measured]
    assert len(both) == 2
    assert any("+" in each.step for each in both)  # the one with the addition
    for each in both:
        assert set(each.measured) == {"plain", "packed", "planes"}
        assert each.predicted["plain"] == 1
        assert 0 < each.predicted["planes"] < 1
        assert each.chosen == "planes"
        assert all(len(halves) == 2 for halves in each.halves.values())


def test_forms_of_single_steps_are_used_and_the_integers_stay(case: Case) -> None:
    with closing(Program(case.model, ISA, 1)) as planned:
        steps = [step for step, form in planned.forms().items() if form.name == "planes"]
    wanted = dict(zip(steps, ("packed", "plain"), strict=True))
    with closing(Program(case.model, ISA, 1, forms=wanted)) as program:
        assert {step: program.forms()[step].name for step in steps} == wanted
        assert_equals_reference(program, case)


def test_a_file_keeps_choices_of_several_models(tmp_path: Path) -> None:
    file = tmp_path / "forms.json"
    keep_forms(file, "a" * 64, "avx2", {"conv0": "plain"})
    keep_forms(file, "b" * 64, "avx2", {"conv1+add1": "planes"})
    keep_forms(file, "a" * 64, "avx2", {"conv0": "bytes"})
    assert chosen_forms(file, "a" * 64, "avx2") == {"conv0": "bytes"}
    assert chosen_forms(file, "b" * 64, "avx2") == {"conv1+add1": "planes"}
    assert chosen_forms(file, "a" * 64, "portable") == {}
    record = json.loads(file.read_text())
    record["choices"] = [each | {"processor": "another one"} for each in record["choices"]]
    file.write_text(json.dumps(record))
    assert chosen_forms(file, "a" * 64, "avx2") == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("nothing", "is no JSON file of forms"),
        ("[]", "expected an object with a list 'choices'"),
        ('{"choices": [{}]}', r"choices\[0\]: expected the texts sha256, isa, processor"),
        ('{"choices": [{"sha256": "", "isa": "", "processor": ""}]}', "expected an object 'forms'"),
        (
            '{"choices": [{"sha256": "", "isa": "", "processor": "", "forms": {"c": "fast"}}]}',
            "'c' has the form 'fast'",
        ),
    ],
)
def test_what_a_file_must_hold(tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "forms.json"
    file.write_text(text)
    with pytest.raises(FormFileError, match=named):
        chosen_forms(file, "", ISA)


def test_the_backend_takes_the_file(case: Case, tmp_path: Path) -> None:
    backend, file = choose("cpu"), tmp_path / "forms.json"
    with closing(Program(case.model, ISA, 1)) as program:
        keep_forms(file, case.model.digest, ISA, dict.fromkeys(program.forms(), "plain"))
    with closing(backend.compile(case.model, {"isa": ISA, "forms": str(file)})) as session:
        assert all(form.startswith("plain") for form in session.forms().values())  # type: ignore[attr-defined]
    with pytest.raises(OptionError, match=r"option forms: .*none\.json: cannot read"):
        backend.compile(case.model, {"forms": str(tmp_path / "none.json")})
    with pytest.raises(OptionError, match="option forms is 3, expected the name of a file"):
        backend.compile(case.model, {"forms": 3})


def test_the_first_start_measures_and_the_next_one_reads(
    case: Case, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    backend, file = choose("cpu"), tmp_path / "forms.json"
    options = {"isa": ISA, "forms": str(file), "measure": True}
    with caplog.at_level("INFO"), closing(backend.compile(case.model, options)):
        assert f"measured and kept in {file}" in caplog.text
    kept = file.read_bytes()
    with closing(backend.compile(case.model, options)) as session:
        forms = {step: form.split(":")[0] for step, form in session.forms().items()}  # type: ignore[attr-defined]
    assert forms == chosen_forms(file, case.model.digest, ISA)
    assert file.read_bytes() == kept
    with pytest.raises(OptionError, match="option measure is True, expected false, or true with forms"):
        backend.compile(case.model, {"measure": True})


def test_a_floor_counts_the_products_of_a_form() -> None:
    found = LayerForms("conv", "plain", "", 0, {}, {"plain": [], "winograd": [], "planes": []}, 6000)
    assert found.floors("avx512vnni", 100.0) == {"plain": 60.0, "winograd": 30.0}


def test_weights_that_the_second_cache_holds_are_read_faster() -> None:
    found = LayerForms("conv", "plain", "", 0, {}, bytes={"plain": NEAR_BYTES, "winograd": 8 * NEAR_BYTES})
    assert found.reading(1024.0, 512.0) == {"plain": 512.0, "winograd": 8192.0}
