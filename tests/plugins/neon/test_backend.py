"""Backend `neon`: available on ARM, before `cpu`; elsewhere it says why not. Integers: kernels/cpu/test_arm.py."""

import pytest

from edgemeta.kernels.cpu.library import ARM_ISAS, X86_ISAS
from edgemeta.model.graph import Model
from edgemeta.plugins import registry
from edgemeta.plugins.api import BackendError, OptionError
from edgemeta.plugins.cpu import backend as cpu
from edgemeta.plugins.neon import backend as neon
from tests.conformance.cases import CASES


def on_a_machine_with(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cpu, neon):
        monkeypatch.setattr(module, "best_isa", lambda: isa)


@pytest.mark.parametrize("isa", ["portable", *X86_ISAS])
def test_elsewhere_it_says_why_it_is_not_available(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine_with(isa, monkeypatch)
    reason = f"this is no ARM processor with NEON: the best instruction set of the library is {isa}"
    assert neon.BACKEND.probe().reason == reason
    with pytest.raises(BackendError, match=f"backend neon is not available: {reason}"):
        registry.choose("neon")


@pytest.mark.parametrize("isa", ARM_ISAS)
def test_on_arm_it_is_preferred_to_cpu(isa: str, monkeypatch: pytest.MonkeyPatch) -> None:
    on_a_machine_with(isa, monkeypatch)
    assert neon.BACKEND.probe().reason == f"C++ kernels, {isa}"
    assert registry.choose("auto").name == "neon"
    assert cpu.BACKEND.probe().available


def test_its_options_are_those_of_cpu_with_its_own_instruction_sets() -> None:
    model: Model = CASES[0].model
    with pytest.raises(
        OptionError, match="backend neon: option isa is 'avx2', expected one of auto, neon, dotprod, i8mm"
    ):
        neon.BACKEND.compile(model, {"isa": "avx2"})
