"""The self-test: its networks are those of the conformance table and reach every form; a wrong integer is found."""

import zipfile
from contextlib import closing
from dataclasses import replace

import pytest

from edgemeta.cli.doctor import kernels
from edgemeta.cli.doctor.kernels import NETWORKS, Variant, networks, outcome, variants
from edgemeta.kernels.cpu.library import FORMS, supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.graph import SelfTest
from edgemeta.model.layers import Layer
from edgemeta.plugins.api import BackendError
from tests.conformance.cases import CASES
from tests.conformance.operators import OPERATORS
from tools.doctor_networks import files

FOREVER = float("inf")


def test_the_file_is_in_step_with_the_conformance_table() -> None:
    """If not: python -m tools.doctor_networks."""
    with zipfile.ZipFile(NETWORKS) as file:
        assert [name for name, _ in files()] == file.namelist()
        for name, content in files():
            assert file.read(name) == content, name


def test_every_kind_of_layer_is_in_a_network() -> None:
    known = {type(layer) for case in CASES for layer in case.model.layers}
    assert known <= {type(layer) for model in networks() for layer in model.layers}
    assert len(OPERATORS) <= len({model.name for model in networks()})
    assert issubclass(next(iter(known)), Layer)


@pytest.mark.gate("20 s for each instruction set: the conformance table in every form")
@pytest.mark.parametrize("isa", supported_isas())
def test_every_form_of_the_conformance_table_is_reached(isa: str) -> None:
    def reached(models: tuple[object, ...]) -> set[str]:
        names = set()
        for model in models:
            for form in FORMS:
                with closing(Program(model, isa, 1, form)) as program:  # type: ignore[arg-type]
                    names |= {each.name for each in program.forms().values()}
        return names

    assert reached(tuple(case.model for case in CASES[::4])) <= reached(networks())


def test_all_instruction_sets_and_forms_are_tested() -> None:
    found = variants(["reference", "cpu", "neon", "fpga"])
    assert {(each.isa, each.form) for each in found if each.backend == "cpu"} == {
        (isa, form) for isa in supported_isas() for form in FORMS
    }
    assert found[-1] == Variant("reference")
    assert any(each.threads > 1 for each in found)
    assert {each.backend for each in found} == {"cpu", "reference"}
    assert variants(["reference"]) == [Variant("reference")]


def test_the_best_instruction_set_equals_the_reference() -> None:
    found = outcome(variants(["cpu"])[0], FOREVER)
    assert found.networks == len(networks())
    assert (found.differ, found.left, found.unsupported) == ([], 0, 0)


def test_a_wrong_integer_and_the_end_of_the_time_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_ = networks()
    assert first.self_test is not None
    expected = first.self_test.expected.copy()
    expected[0, 0] ^= 1
    wrong = replace(first, self_test=SelfTest(first.self_test.batch, expected))
    monkeypatch.setattr(kernels, "networks", lambda: (wrong, second))
    for variant in (Variant("cpu", "portable", "plain"), Variant("reference")):
        found = outcome(variant, FOREVER)
        assert (found.networks, found.differ) == (2, [first.name])
    late = outcome(Variant("reference"), 0.0)
    assert (late.networks, late.left) == (1, 1)


def test_a_device_that_fails_is_no_network_that_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise BackendError("backend cuda: the device or its driver failed")

    def refused(*_: object) -> None:
        raise BackendError("backend cuda: layer 'x' is not supported") from UnsupportedError("layer 'x'")

    count = len(networks())
    monkeypatch.setattr(kernels, "_outputs", broken)
    found = outcome(Variant("cuda"), FOREVER)
    assert (found.networks, found.unsupported, found.left) == (0, 0, count)
    assert found.failure == f"{networks()[0].name}: backend cuda: the device or its driver failed"
    monkeypatch.setattr(kernels, "_outputs", refused)
    found = outcome(Variant("cuda"), FOREVER)
    assert (found.networks, found.unsupported, found.left, found.failure) == (0, count, 0, None)
