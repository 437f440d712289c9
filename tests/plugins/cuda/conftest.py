"""The emulated driver, a device on it, and the backend with the emulation's compiler in place of NVIDIA's."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from tests.conformance.cases import CASES, Case
from tests.emulation.executor import StoringCompiler
from tests.plugins.cuda.emulated import Driver


@pytest.fixture(scope="session")
def loaded() -> Driver:
    """The emulated driver, loaded once per process: PyCUDA finds it as libcuda.so.1."""
    if find_spec("pycuda") is None:
        pytest.skip("PyCUDA is not installed: benchmarks/gpu/pycuda_wheel.sh makes its wheel")
    from tests.emulation import driver

    return Driver(driver.build())


@pytest.fixture
def driver(loaded: Driver) -> Iterator[Driver]:
    """One Jetson Nano, with nothing allocated before and after the test."""
    with loaded.device(5, 3):
        assert loaded.live() == {}
        yield loaded
        loaded.forget()
        assert loaded.live() == {}


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of compiled kernels, shared by the tests of the session."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def backend(driver: Driver, cache: Path, monkeypatch: pytest.MonkeyPatch) -> CudaBackend:
    """The product's backend, with kernels compiled for the CPU."""
    monkeypatch.setenv("EDGEMETA_CACHE", str(cache))
    return CudaBackend(lambda architecture: StoringCompiler())


@pytest.fixture
def cubins(cache: Path) -> Cubins:
    return Cubins(cache, StoringCompiler())


@pytest.fixture
def device(driver: Driver) -> Iterator[DeviceContext]:
    opened = DeviceContext(0)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def small() -> Case:
    """Three launches that lower, compile and run quickly."""
    return next(case for case in CASES if case.name == "conv-3x3-stride2-tf-unsigned")


@pytest.fixture(scope="session")
def residual() -> Case:
    """A residual block with its shortcut."""
    return next(case for case in CASES if case.name == "residual-block-multiplier")
