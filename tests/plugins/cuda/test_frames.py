"""Frames that are preprocessed on the device, on the emulated driver: one copy up, the same graph, the same bits."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.daemon.inference.loaded_model import load_model
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import CubinMaker
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout
from edgemeta.model import reference
from edgemeta.model.errors import FrameError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle, preprocess
from edgemeta.plugins.api import BackendError, SessionLostError
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.frames import FrameRuns, as_it_is
from edgemeta.plugins.cuda.graph import CapturedGraph
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.session import CudaSession
from edgemeta.plugins.frames import PlaceError
from tests.conformance.cases import Case
from tests.emulation.executor import StoringCompiler
from tests.plugins.cuda.emulated import Driver

Frame = NDArray[np.uint8]
ALLOCATES = ("cuMemAlloc", "cuMemHostAlloc", "cuGraphInstantiateWithFlags", "cuModuleLoadData")


def frame(*shape: int, seed: int = 0) -> Frame:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def whole(pixels: Frame) -> list[Rectangle]:
    return [Rectangle(0, 0, *pixels.shape[:2])]


def run(session: CudaSession, frames: Sequence[tuple[Frame, Sequence[Rectangle]]]) -> NDArray[np.integer]:
    session.load_frames([(session.open_frames(pixels.shape, regions), pixels) for pixels, regions in frames])
    return session.run_frames()[0].copy()


def expected(model: Model, frames: Sequence[tuple[Frame, Sequence[Rectangle]]]) -> NDArray[np.integer]:
    parts = [pixels[r.top : r.top + r.height, r.left : r.left + r.width] for pixels, regions in frames for r in regions]
    batch = np.stack([preprocess(part, model.input, model.preprocessing) for part in parts])
    return reference.run(model, batch)[0]


def opened(backend: CudaBackend, model: Model, **options: object) -> CudaSession:
    session = backend.compile(model, {"tiles": "rule", **options})
    assert isinstance(session, CudaSession)
    return session


@pytest.mark.parametrize("launch", ["graph", "kernels", "network"])
def test_frames_of_several_cameras_in_one_run(backend: CudaBackend, small: Case, launch: str) -> None:
    """Alone, together, in another order, with regions, and strided; between them batches of any size."""
    a, b, c = frame(48, 64, 3), frame(33, 70, seed=1), frame(90, 40, 3, seed=2)[::2, ::-1]
    tiles = [Rectangle(0, 0, 30, 30), Rectangle(18, 34, 30, 30)]
    rounds = [[(a, whole(a))], [(b, whole(b)), (a, whole(a))], [(a, tiles), (c, whole(c)), (b, whole(b))]]
    with closing(opened(backend, small.model, launch=launch)) as session:
        for frames in (*rounds, *rounds[::-1]):
            np.testing.assert_array_equal(run(session, frames), expected(small.model, frames), strict=True)
            batch = next(images for _, images in small.batches())[:1]
            np.testing.assert_array_equal(session.run(batch)[0], reference.run(small.model, batch)[0], strict=True)


def test_one_graph_and_one_copy_up_after_the_first_frame(backend: CudaBackend, driver: Driver, small: Case) -> None:
    a, b = frame(48, 64, 3), frame(48, 64, 3, seed=1)
    with closing(opened(backend, small.model)) as session:
        together = [(session.open_frames(a.shape, whole(a)), each) for each in (a, b)]
        for frames in (together, together[:1]):
            session.load_frames(frames)
            session.run_frames()
        before = driver.calls(*ALLOCATES)
        graphs = driver.calls("cuGraphLaunch")
        direct = driver.calls("cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoD_v2")
        for frames in (together, together[:1], together[1:]):
            session.load_frames(frames)
            session.run_frames()
        assert driver.calls(*ALLOCATES) == before
        assert driver.calls("cuGraphLaunch") == graphs + 3
        after = driver.calls("cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyHtoD_v2")
        assert after == direct, "work beside the graph"


def test_one_launch_of_preprocessing_and_network(backend: CudaBackend, driver: Driver, small: Case) -> None:
    """From the frames' copy to the outputs', and one launch between."""
    pixels = frame(48, 64, 3)
    with closing(opened(backend, small.model, launch="network")) as session:
        run(session, [(pixels, whole(pixels))])
        before = driver.calls("cuLaunchKernel")
        other = frame(50, 64, 3)
        np.testing.assert_array_equal(
            run(session, [(other, whole(other))]), expected(small.model, [(other, whole(other))]), strict=True
        )
        assert driver.calls("cuLaunchKernel") == before + 2, "once before the capture, once in it"


def test_many_frame_sizes_use_bounded_memory(backend: CudaBackend, driver: Driver, small: Case) -> None:
    with closing(opened(backend, small.model)) as session:
        held = []
        for side in range(60, 10, -1):
            pixels = frame(side, side, 3)
            np.testing.assert_array_equal(
                run(session, [(pixels, whole(pixels))]), expected(small.model, [(pixels, whole(pixels))])
            )
            held.append(driver.live()["graphs"])
        assert max(held) == held[-1] == held[20]


def test_more_images_than_fit_run_in_parts(device: DeviceContext, cubins: Cubins, small: Case) -> None:
    pixels = frame(40, 50, 3)
    regions = [Rectangle(n, 2 * n, 20, 20) for n in range(7)]
    with device:
        loaded = LoadedPlan(device, lower(small.model, device.architecture), cubins, CapturedGraph)
        loaded.most_images = 3
        runs = FrameRuns(small.model, loaded, as_it_is)
        layout = FrameLayout(small.model, pixels.shape, regions)
        outputs = loaded.new_outputs(7)
        for _ in range(2):
            runs.load([(layout, pixels)])
            runs.run(outputs)
        runs.close()
        loaded.close()
    np.testing.assert_array_equal(outputs[0], expected(small.model, [(pixels, regions)]), strict=True)


def test_a_frame_of_another_shape_is_refused_and_the_next_one_runs(backend: CudaBackend, small: Case) -> None:
    pixels = frame(20, 30, 3)
    with closing(opened(backend, small.model)) as session:
        with pytest.raises(FrameError, match=r"expected \[H, W, 3\] or \[H, W\]"):
            session.open_frames((4, 4, 4), [Rectangle(0, 0, 4, 4)])
        with pytest.raises(FrameError, match="expected one inside the frame"):
            session.open_frames((4, 4, 3), [Rectangle(0, 0, 5, 4)])
        layout = session.open_frames(pixels.shape, whole(pixels))
        for wrong in (frame(20, 31, 3), frame(20, 30), pixels.astype(np.int8)):
            with pytest.raises(FrameError, match=r"a frame is .*, expected uint8 \[20, 30, 3\]"):
                session.load_frames([(layout, wrong)])
        np.testing.assert_array_equal(
            run(session, [(pixels, whole(pixels))]), expected(small.model, [(pixels, whole(pixels))])
        )


@pytest.mark.parametrize("function", ["cuMemAlloc_v2", "cuMemHostAlloc", "cuGraphLaunch"])
def test_a_driver_error_ends_the_session(backend: CudaBackend, driver: Driver, small: Case, function: str) -> None:
    pixels = frame(20, 30, 3)
    session = opened(backend, small.model)
    driver.fail(function, 2)
    with pytest.raises(SessionLostError, match=r"backend cuda: .* while (taking 1 frames|running 1 images of frames)"):
        run(session, [(pixels, whole(pixels))])
    with pytest.raises(SessionLostError, match="the session is closed"):
        run(session, [(pixels, whole(pixels))])
    assert driver.live() == {}


def test_without_the_kernel_and_a_compiler_the_reason_is_said(
    driver: Driver, small: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: Architecture) -> CubinMaker:
        raise CompilerError("no compiler")

    monkeypatch.setenv("EDGEMETA_CACHE", str(tmp_path))
    built = Cubins(tmp_path, StoringCompiler())
    for source in lower(small.model, ARCHITECTURES["sm_53"]).sources:
        built.keep(source, ARCHITECTURES["sm_53"])
    pixels = frame(20, 30, 3)
    reason = r"has no cubin of preprocess/kernel\.cu .* run `edgemeta kernels build"
    with closing(opened(CudaBackend(none), small.model)) as session, pytest.raises(BackendError, match=reason):
        run(session, [(pixels, whole(pixels))])


def test_a_model_is_loaded_with_its_preprocessing_on_the_device(backend: CudaBackend, small: Case) -> None:
    """As the service loads it: random frames are compared with the definition before the first real one."""
    model = replace(small.model, digest="0" * 64)
    loaded = load_model(model, backend, {"tiles": "rule"}, "cpu", 0, place="device")
    pixels = frame(33, 50, 3)
    run = loaded.run_frames([(loaded.open_frames(pixels.shape, whole(pixels)), pixels)])
    np.testing.assert_array_equal(run.outputs[0][0], expected(model, [(pixels, whole(pixels))]), strict=True)
    loaded.close()


def test_preprocessing_that_differs_is_noticed_at_the_load(
    backend: CudaBackend, small: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong table gives another image."""
    right = FrameLayout.geometries

    def wrong(layout: FrameLayout, *arguments: Any) -> list[list[int]]:
        rows = right(layout, *arguments)
        return [[row[0] + layout.pitch, *row[1:]] for row in rows]

    monkeypatch.setattr(FrameLayout, "geometries", wrong)
    with pytest.raises(BackendError, match=r"backend cuda preprocesses a frame of .* pixels for .* otherwise than"):
        load_model(small.model, backend, {"tiles": "rule"}, "cpu", 0, place="device")


def test_a_model_in_parts_is_refused(backend: CudaBackend, small: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    first = small.model.layers[0].name
    monkeypatch.setattr(CudaBackend, "supports", lambda self, layer, inputs: "no" if layer.name == first else None)
    with pytest.raises(PlaceError, match="backend cuda does not preprocess frames on its device for model"):
        load_model(small.model, backend, {"tiles": "rule"}, "cpu", 0, place="device")
