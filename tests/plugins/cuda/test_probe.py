"""What the backend says of a machine that has a driver."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.driver import UnavailableError
from tests.conformance.cases import Case
from tests.emulation.compiler import EmulationCompiler
from tests.plugins.cuda.emulated import Driver

SOME = CudaBackend(lambda architecture: EmulationCompiler())


def no_compiler(architecture: Architecture) -> EmulationCompiler:
    raise CompilerError("no CUDA compiler: none here")


def test_a_device_and_a_compiler_are_named(backend: CudaBackend, driver: Driver) -> None:
    probe = backend.probe()
    assert probe.available
    assert re.fullmatch(r".+ \(sm_53\), .+", probe.reason)
    assert "\n" not in probe.reason
    assert driver.live() == {}, "a probe leaves nothing behind"


def test_kernels_compiled_ahead_need_no_compiler(
    backend: CudaBackend, driver: Driver, small: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(backend.compile(small.model, {"tiles": "rule"})):
        pass
    without = CudaBackend(no_compiler)
    assert without.probe().available
    assert without.probe().reason.endswith("(sm_53), kernels compiled ahead of time")
    monkeypatch.setenv("EDGEMETA_CACHE", str(tmp_path))
    assert not without.probe().available
    assert without.probe().reason.endswith("(sm_53) was found, but no CUDA compiler: none here")


def test_an_older_generation_is_refused(loaded: Driver) -> None:
    with loaded.device(5, 0):
        probe = SOME.probe()
        assert not probe.available
        assert probe.reason.endswith("has compute capability 5.0, the kernels need 5.3")
        with pytest.raises(UnavailableError, match=r"has compute capability 5\.0"):
            DeviceContext(0)


@pytest.mark.parametrize(
    ("capability", "name", "dot4", "tensor"),
    [((6, 1), "sm_61", True, False), ((7, 0), "sm_70", False, False), ((8, 6), "sm_86", True, True)],
)
def test_an_unlisted_generation_uses_the_code_of_the_nearest_older_one(
    loaded: Driver, capability: tuple[int, int], name: str, dot4: bool, tensor: bool
) -> None:
    with loaded.device(*capability):
        device = DeviceContext(0)
        architecture = device.architecture
        device.close()
    assert architecture.name == name
    assert architecture.number == 100 * capability[0] + 10 * capability[1]
    assert (architecture.dot4, architecture.tensor_int8) == (dot4, tensor)
    assert architecture.shared_bytes >= 48 << 10


def test_a_driver_without_a_device(loaded: Driver) -> None:
    probe = SOME.probe()
    assert not probe.available
    assert probe.reason.startswith("the NVIDIA driver finds no device")
    assert "\n" not in probe.reason
    with pytest.raises(UnavailableError, match="the NVIDIA driver finds no device"):
        DeviceContext(0)
