"""Without the option `launch` a measurement on the device decides between a graph and one launch; the log says why."""

import json
import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, Source
from edgemeta.model import reference
from edgemeta.plugins.cuda import launch_form, tuning
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.launch_form import fastest_form
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.session import CudaSession
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import CASES, Case
from tests.emulation.executor import StoringCompiler
from tests.plugins.cuda.emulated import Driver

LAUNCH_FAILED = 719


@pytest.fixture(autouse=True)
def few_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "WARM_UP_RUNS", 0)
    monkeypatch.setattr(tuning, "TIMED_RUNS", 1)


@pytest.fixture(autouse=True)
def no_mps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a process service that does not run."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "mps"))
    return tmp_path / "mps"


@pytest.fixture
def plan(small: Case, device: DeviceContext) -> LaunchPlan:
    return lower(small.model, device.architecture)


@pytest.fixture
def kept(tmp_path: Path) -> Cubins:
    return Cubins(tmp_path / "cubins", StoringCompiler())


@pytest.fixture
def one_launch_takes(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Microseconds of one launch in a measurement; those of a graph are 20."""
    times = [10.0]

    def host_us(loaded: LoadedPlan, *_: object) -> float:
        return times[0] if loaded.plan.launches[0].is_persistent else 20.0

    monkeypatch.setattr(launch_form, "host_us", host_us)
    return times


def chosen(
    plan: LaunchPlan, device: DeviceContext, cubins: Cubins, caplog: pytest.LogCaptureFixture, *, compiles: bool = True
) -> tuple[bool, str]:
    with caplog.at_level(logging.INFO, launch_form.__name__):
        form = fastest_form(plan, device, cubins, compiles=compiles)
    return form.launches[0].is_persistent, caplog.records[-1].getMessage()


def test_the_faster_form_is_taken_and_remembered(
    plan: LaunchPlan,
    device: DeviceContext,
    driver: Driver,
    kept: Cubins,
    one_launch_takes: list[float],
    caplog: pytest.LogCaptureFixture,
) -> None:
    graph, network = "20.0 us as a CUDA graph of its launches", "10.0 us as one launch of the whole network"
    expected = (True, f"launch: one launch of the whole network: {network}, {graph}")
    assert chosen(plan, device, kept, caplog) == expected
    one_launch_takes[0] = 30.0
    launched = driver.calls("cuGraphLaunch")
    assert chosen(plan, device, kept, caplog) == expected, "what is remembered is not measured"
    assert driver.calls("cuGraphLaunch") == launched
    for damage in ("", "{", "[]", "{}", '{"graph": 1}', '{"graph": 1, "network": "?"}'):
        (file,) = (kept.folder / "launch").iterdir()
        file.write_text(damage)
        is_network, text = chosen(plan, device, kept, caplog)
        assert not is_network, damage
        assert text.endswith("20.0 us as a CUDA graph of its launches, 30.0 us as one launch of the whole network")
        assert json.loads(file.read_text()) == {"graph": 20.0, "network": 30.0}


@pytest.mark.usefixtures("one_launch_takes")
def test_what_is_not_compiled_is_not_measured_if_it_may_not_be(
    plan: LaunchPlan, device: DeviceContext, kept: Cubins, caplog: pytest.LogCaptureFixture
) -> None:
    is_network, text = chosen(plan, device, kept, caplog, compiles=False)
    assert not is_network
    assert "one launch is not compiled; `edgemeta kernels build` does it" in text
    for source in (*plan.sources, *one_launch(plan, device.multiprocessors).sources):
        kept.keep(source, plan.architecture)
    assert chosen(plan, device, kept, caplog, compiles=False)[0]
    assert chosen(plan, device, Cubins(kept.folder, None), caplog)[0], "a device without a compiler takes it, too"


@pytest.mark.usefixtures("one_launch_takes")
def test_a_shared_gpu_runs_the_graph(
    plan: LaunchPlan, device: DeviceContext, kept: Cubins, caplog: pytest.LogCaptureFixture, no_mps: Path
) -> None:
    no_mps.mkdir()
    (no_mps / "control").touch()
    is_network, text = chosen(plan, device, kept, caplog)
    assert not is_network
    assert "the GPU is shared through MPS" in text


def test_a_network_without_that_form_says_so(
    device: DeviceContext, kept: Cubins, caplog: pytest.LogCaptureFixture
) -> None:
    model = next(each for each in CASES if each.name.startswith("max-pool")).model
    is_network, text = chosen(lower(model, device.architecture), device, kept, caplog)
    assert not is_network
    assert "pool/kernel.cu has no form for a launch of the whole network" in text


class OnlySmallKernels(StoringCompiler):
    """Refuses a whole network, as a small device does on which that takes too long."""

    def compile(self, source: Source, *rest: object) -> bytes:
        if source.text:
            raise CompilerError("too long")
        return super().compile(source, *rest)  # type: ignore[arg-type]


def test_a_form_that_does_not_compile_is_not_tried_again(
    plan: LaunchPlan, device: DeviceContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cubins = Cubins(tmp_path / "cubins", OnlySmallKernels())
    is_network, text = chosen(plan, device, cubins, caplog)
    assert not is_network
    assert text.endswith("inf us as one launch of the whole network")
    assert "is skipped: too long" in caplog.text
    caplog.clear()
    assert not chosen(plan, device, cubins, caplog)[0]
    assert "is skipped" not in caplog.text


def test_a_device_that_refuses_every_form_runs_the_graph(
    plan: LaunchPlan, device: DeviceContext, driver: Driver, kept: Cubins, caplog: pytest.LogCaptureFixture
) -> None:
    driver.fail("cuLaunchKernel", LAUNCH_FAILED, times=1000)
    is_network, _ = chosen(plan, device, kept, caplog)
    driver.forget()
    assert not is_network
    assert "cannot run them: cuLaunchKernel failed" in caplog.text


@pytest.mark.parametrize("name", ["measured", "predicted"])
def test_the_backend_runs_what_was_measured_to_be_faster(
    backend: CudaBackend, small: Case, tmp_path: Path, one_launch_takes: list[float], name: str
) -> None:
    image = random_image(small.model)
    options = {"tiles": "rule", "launch": name, "cache": str(tmp_path)}
    cubins = Cubins(tmp_path, StoringCompiler())
    with closing(DeviceContext(0)) as device:
        plan = lower(small.model, device.architecture)
        for source in one_launch(plan, device.multiprocessors).sources:
            cubins.keep(source, plan.architecture)
    for microseconds, launches in ((30.0, len(plan.launches)), (10.0, 1)):
        one_launch_takes[0] = microseconds
        for file in (tmp_path / "launch").glob("*"):
            file.unlink()
        with closing(backend.compile(small.model, options)) as session:
            assert isinstance(session, CudaSession)
            assert len(session.launches) == launches
            np.testing.assert_array_equal(session.run(image)[0], reference.run(small.model, image)[0], strict=True)
