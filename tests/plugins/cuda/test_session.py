"""Sessions with the real PyCUDA on the emulated driver, which runs the kernels on the CPU."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.graph import CapturedGraph
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.session import HOST, CudaSession
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import CASES, Case
from tests.plugins.cuda.emulated import Driver
from tests.plugins.cuda.proofs import batches_of_all_sizes, first_images, grown, mismatches


@pytest.mark.parametrize(
    ("name", "launch"),
    [
        ("resnet8-cifar10", "graph"),
        pytest.param("resnet8-cifar10-paper", "kernels", marks=pytest.mark.gate("4 s: another network, emulated")),
    ],
)
def test_real_images_equal_the_reference(backend: CudaBackend, shared_data: Path, name: str, launch: str) -> None:
    model = load(find(name))
    images = first_images(model, shared_data, 5)
    assert mismatches(backend, model, images, 2, tiles="rule", launch=launch) == 0


def test_batches_of_any_size_and_order(backend: CudaBackend, residual: Case) -> None:
    images = random_images(residual, 7)
    expected = reference.run(residual.model, images)[0]
    with closing(backend.compile(residual.model, {"tiles": "rule"})) as session:
        for batch in batches_of_all_sizes(images):
            first = 0 if batch.ctypes.data == images.ctypes.data else len(images) - len(batch)
            np.testing.assert_array_equal(session.run(batch)[0], expected[first : first + len(batch)], strict=True)


def test_a_network_in_one_launch(backend: CudaBackend, residual: Case) -> None:
    images = random_images(residual, 5)
    expected = reference.run(residual.model, images)[0]
    with closing(backend.compile(residual.model, {"tiles": "rule", "launch": "network"})) as session:
        assert isinstance(session, CudaSession)
        assert [launch.is_persistent for launch in session.launches] == [True]
        for count in (1, 5, 1, 3):
            np.testing.assert_array_equal(session.run(images[:count])[0], expected[:count], strict=True)


@pytest.mark.parametrize("launch", ["kernels", "network"])
def test_the_forms_of_all_steps_have_names(backend: CudaBackend, residual: Case, launch: str) -> None:
    with closing(backend.compile(residual.model, {"tiles": "rule", "launch": launch})) as session:
        assert isinstance(session, CudaSession)
        steps = {"+".join(each.layers) for each in lower(residual.model, ARCHITECTURES[session.architecture]).launches}
        assert set(session.forms()) == steps
        assert set(session.forms().values()) & {"direct", "winograd", "tensor, int8"}


def test_a_network_that_cannot_be_one_launch_is_refused(backend: CudaBackend) -> None:
    case = next(each for each in CASES if each.name.startswith("max-pool"))
    with pytest.raises(BackendError, match=r"backend cuda: layer '\w+': pool/kernel.cu has no form"):
        backend.compile(case.model, {"tiles": "rule", "launch": "network"})


def test_a_large_batch_runs_in_parts(device: DeviceContext, cubins: Cubins, small: Case) -> None:
    images = random_images(small, 7)
    plan = lower(small.model, device.architecture)
    with device:
        loaded = LoadedPlan(device, plan, cubins, CapturedGraph)
        loaded.most_images = 3
        outputs = loaded.new_outputs(7)
        loaded.run(images, outputs)
        loaded.close()
    np.testing.assert_array_equal(outputs[0], reference.run(small.model, images)[0], strict=True)


def test_after_the_first_call_nothing_is_allocated(backend: CudaBackend, driver: Driver, small: Case) -> None:
    images = random_images(small, 3)
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        first = {size: session.run(images[:size])[0] for size in (3, 1)}
        before = driver.calls("cuMemAlloc", "cuMemHostAlloc", "cuGraphInstantiateWithFlags", "cuModuleLoadData")
        for size in (1, 3) * 50:
            assert np.shares_memory(session.run(images[:size])[0], first[size])
        after = driver.calls("cuMemAlloc", "cuMemHostAlloc", "cuGraphInstantiateWithFlags", "cuModuleLoadData")
    assert after == before


def test_a_graph_takes_one_call_and_direct_launches_one_per_kernel(
    backend: CudaBackend, driver: Driver, small: Case
) -> None:
    image = random_image(small.model)
    with closing(backend.compile(small.model, {"tiles": "rule", "launch": "graph"})) as session:
        session.run(image)
        launches, graphs = driver.calls("cuLaunchKernel"), driver.calls("cuGraphLaunch")
        session.run(image)
        assert driver.calls("cuLaunchKernel") == launches
        assert driver.calls("cuGraphLaunch") == graphs + 1
    with closing(backend.compile(small.model, {"tiles": "rule", "launch": "kernels"})) as session:
        launches, graphs = driver.calls("cuLaunchKernel"), driver.calls("cuGraphLaunch")
        session.run(image)
        assert driver.calls("cuLaunchKernel") == launches + len(session.launches)
        assert driver.calls("cuGraphLaunch") == graphs


def test_an_input_changed_in_place_is_used(backend: CudaBackend, small: Case) -> None:
    image = random_image(small.model)
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        session.run(image)
        image[0, :4] = small.model.input.hi
        np.testing.assert_array_equal(session.run(image)[0], reference.run(small.model, image)[0], strict=True)


def test_a_session_is_created_run_and_closed_in_different_threads(
    backend: CudaBackend, driver: Driver, small: Case
) -> None:
    image = random_image(small.model)
    session = in_thread(lambda: backend.compile(small.model, {"tiles": "rule"}))
    logits = [in_thread(lambda: session.run(image)[0].copy()) for _ in range(3)]
    in_thread(session.close)
    for each in logits:
        np.testing.assert_array_equal(each, reference.run(small.model, image)[0], strict=True)
    assert driver.live() == {}


def test_two_sessions_are_independent(backend: CudaBackend, small: Case) -> None:
    image = random_image(small.model)
    expected = reference.run(small.model, image)[0]
    with closing(backend.compile(small.model, {"tiles": "rule"})) as one:
        with closing(backend.compile(small.model, {"tiles": "rule"})) as two:
            np.testing.assert_array_equal(one.run(image)[0], expected)
            np.testing.assert_array_equal(two.run(image)[0], expected)
        np.testing.assert_array_equal(one.run(image)[0], expected)


def test_wrong_batches_are_refused(backend: CudaBackend, small: Case) -> None:
    image = random_image(small.model)
    wrong = [image[0], image[:0], image[:, :, :2], image.astype(np.int32), image[:, ::-1]]
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        for batch in wrong:
            with pytest.raises(BackendError, match=r"backend cuda: the batch is .*, expected C-contiguous"):
                session.run(batch)
            with pytest.raises(BackendError, match="the batch is"):
                session.profile(batch)


def test_a_profile_has_every_launch_and_the_host_time(backend: CudaBackend, small: Case) -> None:
    image = random_image(small.model)
    with closing(backend.compile(small.model, {"tiles": "rule"})) as session:
        steps = session.profile(image)
        assert list(steps) == ["+".join(launch.layers) for launch in session.launches] + [HOST]
        assert all(microseconds >= 0 for microseconds in steps.values())
        batch = np.concatenate([image] * 3)
        np.testing.assert_array_equal(session.run(batch)[0], reference.run(small.model, batch)[0])
        assert session.profile(image).keys() == steps.keys()
        with pytest.raises(BackendError, match="a profile takes one image, the batch has 3"):
            session.profile(batch)


def test_a_closed_session_refuses_to_run(backend: CudaBackend, driver: Driver, small: Case) -> None:
    session = backend.compile(small.model, {"tiles": "rule"})
    logits = session.run(random_image(small.model))[0]
    expected = logits.copy()
    session.close()
    session.close()
    np.testing.assert_array_equal(logits, expected)
    with pytest.raises(BackendError, match=r"^backend cuda: the session is closed$"):
        session.run(random_image(small.model))
    assert driver.live() == {}


@pytest.mark.gate("2 s of processor time")
def test_200_sessions_leak_nothing(driver: Driver, device: DeviceContext, cubins: Cubins, small: Case) -> None:
    """The plan is lowered once, since lowering is slow."""
    plan = lower(small.model, device.architecture)

    def opened() -> CudaSession:
        own = DeviceContext(0)
        with own:
            return CudaSession(small.model, own, LoadedPlan(own, plan, cubins, CapturedGraph))

    before = driver.live()
    assert grown(opened, random_image(small.model), 200, driver.held_bytes) == 0
    assert driver.live() == before


def in_thread(work: Callable[[], Any]) -> Any:
    """Run a function in a new thread and return its result."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(60)


def random_images(case: Case, count: int) -> Any:
    kind = case.model.input
    return np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (count, *kind.shape)).astype(kind.dtype)
