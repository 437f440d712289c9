"""Without the option `launch` a stored prediction decides between a graph and one launch, and the log says why."""

import logging
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.choice import CLUSTER, GRAPH, NETWORK, Prediction, forms_of, store
from edgemeta.kernels.cuda.one_launch.plan import is_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.preprocess.launch import FRAME_SHAPE, with_preprocessing
from edgemeta.model import reference
from edgemeta.model.preprocess import Rectangle, preprocess
from edgemeta.plugins.cuda import launch_form
from edgemeta.plugins.cuda.backend import CudaBackend
from edgemeta.plugins.cuda.launch_form import faster_form
from edgemeta.plugins.cuda.session import CudaSession
from edgemeta.plugins.measure import random_image
from tests.conformance.cases import CASES, Case
from tests.emulation.executor import StoringCompiler
from tests.plugins.cuda.emulated import Driver

FASTER = Prediction("Jetson Nano", 3, {GRAPH: 20.0, NETWORK: 10.0})
SLOWER = Prediction("Jetson Nano", 3, {GRAPH: 20.0, NETWORK: 30.0})


class AnyCompiler(StoringCompiler):
    """Writes what is no cubin, at once: these tests run nothing."""

    def compile(self, *_: object) -> bytes:
        return b"a kernel"


@pytest.fixture
def plan(residual: Case) -> LaunchPlan:
    return lower(residual.model, ARCHITECTURES["sm_53"])


@pytest.fixture
def kept(tmp_path: Path) -> Cubins:
    return Cubins(tmp_path, AnyCompiler())


@pytest.fixture(autouse=True)
def no_mps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a process service that does not run."""
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "mps"))
    return tmp_path / "mps"


def chosen(plan: LaunchPlan, cubins: Cubins, caplog: pytest.LogCaptureFixture) -> tuple[bool, str]:
    with caplog.at_level(logging.INFO, launch_form.__name__):
        form = faster_form(plan, 1, cubins)
    return form.launches[0].is_persistent, caplog.records[-1].getMessage()


def predicted(prediction: Prediction, plan: LaunchPlan, cubins: Cubins) -> None:
    store(cubins.folder, forms_of(plan, 1), prediction)


def test_without_a_prediction_it_is_the_graph(plan: LaunchPlan, kept: Cubins, caplog: pytest.LogCaptureFixture) -> None:
    reason = f"no prediction for these kernels is in {kept.folder}; `edgemeta kernels build` makes them"
    assert chosen(plan, kept, caplog) == (False, f"launch: a CUDA graph of its launches: {reason}")


def test_a_slower_launch_is_not_taken(plan: LaunchPlan, kept: Cubins, caplog: pytest.LogCaptureFixture) -> None:
    predicted(SLOWER, plan, kept)
    assert chosen(plan, kept, caplog) == (False, f"launch: a CUDA graph of its launches: {SLOWER}")


def test_a_faster_launch_is_taken_if_it_is_compiled_and_safe(
    plan: LaunchPlan, kept: Cubins, caplog: pytest.LogCaptureFixture, no_mps: Path
) -> None:
    predicted(FASTER, plan, kept)
    is_network, text = chosen(plan, kept, caplog)
    assert not is_network
    assert "but its kernel is not compiled; `edgemeta kernels build` does it" in text
    (source,) = one_launch(plan, 1).sources
    kept.keep(source, plan.architecture)
    assert chosen(plan, kept, caplog) == (True, f"launch: one launch of the whole network: {FASTER}")
    assert chosen(plan, Cubins(kept.folder, None), caplog)[0], "a device without a compiler takes it, too"
    no_mps.mkdir()
    (no_mps / "control").touch()
    is_network, text = chosen(plan, kept, caplog)
    assert not is_network
    assert "the GPU is shared through MPS" in text


def test_a_cluster_is_taken_where_it_is_the_fastest(
    residual: Case, kept: Cubins, caplog: pytest.LogCaptureFixture
) -> None:
    plan = lower(residual.model, ARCHITECTURES["sm_90"])
    forms = forms_of(plan)
    fastest = Prediction("H200", 3, {GRAPH: 20.0, NETWORK: 10.0, CLUSTER: 9.0})
    store(kept.folder, forms, fastest)
    for source in forms[CLUSTER].sources:
        kept.keep(source, plan.architecture)
    with caplog.at_level(logging.INFO, launch_form.__name__):
        (launch,) = faster_form(plan, plan.architecture.multiprocessors, kept).launches
    assert is_cluster(launch)
    expected = f"launch: one launch of the whole network, its blocks one cluster: {fastest}"
    assert caplog.records[-1].getMessage() == expected


def test_a_network_without_that_form_says_so(kept: Cubins, caplog: pytest.LogCaptureFixture) -> None:
    model = next(each for each in CASES if each.name.startswith("max-pool")).model
    is_network, text = chosen(lower(model, ARCHITECTURES["sm_53"]), kept, caplog)
    assert not is_network
    assert "pool/kernel.cu has no form for a launch of the whole network" in text


def test_the_backend_runs_what_was_predicted_to_be_faster(backend: CudaBackend, cache: Path, residual: Case) -> None:
    plan = lower(residual.model, ARCHITECTURES["sm_53"])
    cubins = Cubins(cache, StoringCompiler())
    image = random_image(residual.model)
    for source in one_launch(plan, 1).sources:
        cubins.keep(source, plan.architecture)
    for prediction, options, launches in (
        (SLOWER, {}, len(plan.launches)),
        (FASTER, {"launch": "graph"}, len(plan.launches)),
        (FASTER, {}, 1),
    ):
        store(cache, forms_of(plan, 1), prediction)
        with closing(backend.compile(residual.model, {"tiles": "rule", **options})) as session:
            assert isinstance(session, CudaSession)
            assert len(session.launches) == launches
            expected = reference.run(residual.model, image)[0]
            np.testing.assert_array_equal(session.run(image)[0], expected, strict=True)
    forget(cache)


@pytest.mark.parametrize("prediction", [SLOWER, FASTER])
def test_preprocessing_joins_the_launch_where_that_is_predicted_to_be_faster(
    backend: CudaBackend,
    driver: Driver,
    cache: Path,
    small: Case,
    prediction: Prediction,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plan, model = lower(small.model, ARCHITECTURES["sm_53"]), small.model
    joined = one_launch(plan, 1)
    framed = with_preprocessing(joined, model, FRAME_SHAPE)
    cubins = Cubins(cache, StoringCompiler())
    for before, after, times in ((plan, joined, FASTER), (framed, one_launch(framed, 1), prediction)):
        store(cache, forms_of(before, 1), times)
        cubins.keep(after.sources[0], plan.architecture)
    pixels = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    with closing(backend.compile(model, {"tiles": "rule"})) as session, caplog.at_level(logging.INFO):
        assert isinstance(session, CudaSession)
        layout = session.open_frames(pixels.shape, [Rectangle(0, 0, 48, 64)])
        launched = driver.calls("cuLaunchKernel")
        session.load_frames([(layout, pixels)])
        found = session.run_frames()[0]
        once, form = (1, "one launch of the whole network") if prediction is FASTER else (2, "a CUDA graph of its")
        assert driver.calls("cuLaunchKernel") == launched + 2 * once, "before the capture and in it"
    image = preprocess(pixels, model.input, model.preprocessing)[np.newaxis]
    np.testing.assert_array_equal(found, reference.run(model, image)[0], strict=True)
    assert f"launch with preprocessing: {form}" in caplog.text
    forget(cache)


def forget(cache: Path) -> None:
    """Remove the predictions: the folder is that of other tests, too."""
    for file in (cache / "launch").iterdir():
        file.unlink()
