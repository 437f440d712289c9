"""Every error of the device or its driver is one clear error text, and nothing stays allocated."""

import logging
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.model import reference
from edgemeta.model.file import save
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.plugins.api import BackendError, Session, SessionLostError
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import Case
from tests.conformance.networks import NetworkBuilder
from tests.plugins.cuda.emulated import Driver

OUT_OF_MEMORY, INVALID_IMAGE, ILLEGAL_ADDRESS, LAUNCH_FAILED, UNAVAILABLE = 2, 200, 700, 719, 46

# Function of the driver, result, and what is told of it.
OPENING = [
    ("cuCtxCreate", OUT_OF_MEMORY, "out of memory on the device while opening device 0: cuCtxCreate failed"),
    ("cuCtxCreate", UNAVAILABLE, "the device or its driver failed while opening device 0: cuCtxCreate failed"),
    ("cuStreamCreate", OUT_OF_MEMORY, "out of memory on the device while opening device 0: cuStreamCreate failed"),
    ("cuModuleLoadData", INVALID_IMAGE, r"the device or its driver failed while loading \d+ kernels: cuModuleLoad"),
    ("cuModuleGetFunction", UNAVAILABLE, r"the device or its driver failed while loading \d+ kernels: cuModuleGet"),
    ("cuMemAlloc", OUT_OF_MEMORY, r"out of memory on the device while loading \d+ kernels: cuMemAlloc failed"),
    ("cuMemcpyHtoD", UNAVAILABLE, r"the device or its driver failed while loading \d+ kernels: cuMemcpyHtoD"),
]
RUNNING = [
    ("cuMemAlloc", OUT_OF_MEMORY, "out of memory on the device while running a batch of 1: cuMemAlloc failed"),
    ("cuMemHostAlloc", OUT_OF_MEMORY, "out of memory on the device while running a batch of 1: cuMemHostAlloc failed"),
    ("cuMemsetD8Async", UNAVAILABLE, "the device or its driver failed while running a batch of 1: cuMemsetD8Async"),
    ("cuStreamBeginCapture", UNAVAILABLE, "the device or its driver failed while running .*: cuStreamBeginCapture"),
    ("cuMemcpyHtoDAsync", UNAVAILABLE, "the device or its driver failed while running .*: cuMemcpyHtoDAsync"),
    ("cuLaunchKernel", LAUNCH_FAILED, "a kernel failed on the device while running a batch of 1: cuLaunchKernel"),
    ("cuStreamEndCapture", UNAVAILABLE, "the device or its driver failed while running .*: cuStreamEndCapture"),
    ("cuGraphInstantiateWithFlags", OUT_OF_MEMORY, "out of memory on the device while running .*: cuGraphInstantiate"),
    ("cuGraphLaunch", LAUNCH_FAILED, "a kernel failed on the device while running a batch of 1: cuGraphLaunch failed"),
    ("cuStreamSynchronize", LAUNCH_FAILED, "a kernel failed on the device while running .*: cuStreamSynchronize"),
    ("cuStreamSynchronize", ILLEGAL_ADDRESS, "the device or its driver failed while running .*: cuStreamSynchronize"),
    ("cuCtxPushCurrent", UNAVAILABLE, "the device or its driver failed while running .*: cuCtxPushCurrent"),
]
EVERY_RUN = ("cuGraphLaunch", "cuStreamSynchronize", "cuCtxPushCurrent")
"""What is called in every run, not only in the first of a batch size."""


@pytest.mark.parametrize(("function", "result", "message"), OPENING)
def test_a_session_that_cannot_be_created_leaks_nothing(
    backend: CudaBackend, driver: Driver, small: Case, function: str, result: int, message: str
) -> None:
    driver.fail(function, result)
    with pytest.raises(BackendError, match=f"^backend cuda: {message}") as caught:
        backend.compile(small.model, {"tiles": "rule"})
    driver.forget()
    assert str(caught.value).isprintable()
    assert driver.live() == {}
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        session.run(random_image(small.model))


@pytest.mark.parametrize(("function", "result", "message"), RUNNING)
def test_a_session_whose_first_run_fails_frees_everything(
    backend: CudaBackend, driver: Driver, small: Case, function: str, result: int, message: str
) -> None:
    session = backend.compile(small.model, {"tiles": "rule"})
    driver.fail(function, result)
    assert_it_fails_once_and_for_all(session, driver, small, message)
    with closing(backend.compile(small.model, {"tiles": "rule"})) as healthy:
        assert_right(healthy, small)


@pytest.mark.parametrize(("function", "result", "message"), [row for row in RUNNING if row[0] in EVERY_RUN])
def test_a_session_that_fails_later_frees_everything(
    backend: CudaBackend, driver: Driver, small: Case, function: str, result: int, message: str
) -> None:
    session = backend.compile(small.model, {"tiles": "rule"})
    for _ in range(3):
        assert_right(session, small)
    driver.fail(function, result)
    assert_it_fails_once_and_for_all(session, driver, small, message)


def assert_it_fails_once_and_for_all(session: Session, driver: Driver, case: Case, message: str) -> None:
    with pytest.raises(SessionLostError, match=f"^backend cuda: {message}") as caught:
        session.run(random_image(case.model))
    driver.forget()
    assert driver.live() == {}
    again = re.escape(f"{caught.value}; the session is closed")
    with pytest.raises(SessionLostError, match=f"^{again}$"):
        session.run(random_image(case.model))
    session.close()


def assert_right(session: Session, case: Case) -> None:
    image = random_image(case.model)
    np.testing.assert_array_equal(session.run(image)[0], reference.run(case.model, image)[0], strict=True)


def test_out_of_memory_for_a_larger_batch(backend: CudaBackend, driver: Driver, small: Case) -> None:
    image = random_image(small.model)
    session = backend.compile(small.model, {"tiles": "rule"})
    session.run(image)
    driver.fail("cuMemAlloc", OUT_OF_MEMORY, nth=2)
    with pytest.raises(BackendError, match="out of memory on the device while running a batch of 5: cuMemAlloc failed"):
        session.run(np.concatenate([image] * 5))
    assert driver.live() == {}


def test_an_error_during_close_is_reported_and_frees_everything(
    backend: CudaBackend, driver: Driver, small: Case
) -> None:
    session = backend.compile(small.model, {"tiles": "rule"})
    assert_right(session, small)
    driver.fail("cuGraphExecDestroy", UNAVAILABLE)
    with pytest.raises(BackendError, match="the device or its driver failed while freeing its memory: cuGraphExec"):
        session.close()
    assert driver.live() == {}
    session.close()


def test_an_unknown_device_number_is_an_error(backend: CudaBackend, small: Case) -> None:
    with pytest.raises(BackendError, match=r"^backend cuda: device 3 does not exist, the last one is 0$"):
        backend.compile(small.model, {"device": 3})


def test_without_a_compiler_only_existing_cubins_run(
    backend: CudaBackend, driver: Driver, small: Case, cache: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        session.run(random_image(small.model))

    def none(architecture: Architecture) -> None:
        raise CompilerError(f"no CUDA compiler for {architecture.name}: none is wanted here")

    without = CudaBackend(none)  # type: ignore[arg-type]
    with caplog.at_level(logging.INFO), closing(without.compile(small.model, {"cache": str(cache)})) as session:
        assert_right(session, small)
    assert "tiles are chosen by rule: no CUDA compiler" in caplog.text
    with pytest.raises(
        BackendError, match=r"^backend cuda: .* has no cubin of .* and this machine has no CUDA compiler"
    ):
        without.compile(small.model, {"tiles": "rule", "cache": str(tmp_path)})
    assert driver.live() == {}


def test_a_layer_without_a_kernel_is_named(backend: CudaBackend) -> None:
    net = NetworkBuilder("joined", TensorType((1, 1, 3)))
    model = net.observe(net.concat(*[INPUT] * 33)).model
    with pytest.raises(
        BackendError, match=r"^backend cuda: layer 'concat0': a concatenation of 33 tensors is not supported, expected"
    ):
        backend.compile(model, {"tiles": "rule"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": -1}, "option device is -1, expected a whole number from 0 to 63"),
        ({"tiles": "best"}, "option tiles is 'best', expected one of measured, rule"),
        ({"launch": "fast"}, "option launch is 'fast', expected one of measured, graph, kernels, network, predicted"),
        ({"cache": 3}, "option cache is 3, expected the path of a folder"),
        ({"threads": 2}, "unknown option 'threads'"),
    ],
)
def test_wrong_options_are_refused(backend: CudaBackend, small: Case, options: dict[str, object], message: str) -> None:
    with pytest.raises(BackendError, match=f"^backend cuda: {message}"):
        backend.compile(small.model, options)


LOST = """
import gc, sys
from tests.emulation import driver
from tests.emulation.executor import StoringCompiler
from edgemeta.model.file import load
from edgemeta.plugins.api import SessionLostError
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.measure import random_image
from tests.plugins.cuda.emulated import Driver

lost, model = Driver(driver.build()), load(sys.argv[1])
with lost.device(5, 3):
    session = CudaBackend(lambda architecture: StoringCompiler()).compile(model, {"tiles": "rule"})
    session.run(random_image(model))
    lost.fail("cuCtxPushCurrent", int(sys.argv[2]), times=1000)
    try:
        session.run(random_image(model))
    except SessionLostError as error:
        print(error)
    session.close()
    del session
    gc.collect()
    print(lost.live())
"""


def test_a_driver_that_refuses_contexts_does_not_end_the_process(driver: Driver, small: Case, tmp_path: Path) -> None:
    """In a process of its own: PyCUDA calls std::terminate where a destructor cannot enter its context."""
    save(small.model, tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", LOST, str(tmp_path / "model"), str(UNAVAILABLE)],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    text, live = done.stdout.splitlines()
    assert text.startswith("backend cuda: the device or its driver failed while running a batch of 1: cuCtxPushCurrent")
    assert live == "{}"
