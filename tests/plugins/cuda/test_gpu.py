"""On a real GPU (`pytest -m gpu`, benchmarks/gpu/run.sh): every bit, no leak, nothing that compute-sanitizer minds."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.float_network import float_plan_of
from benchmarks.gpu.opened import opened
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import find_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta.plugins.api import BackendError
from edgemeta.plugins.cuda.backend import BACKEND
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.measure import random_image, verify
from tests.conformance.cases import CASES
from tests.conformance.on_all_cores import reference_outputs
from tests.parts import by_name, in_parts
from tests.plugins.cuda.proofs import first_images, grown

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(3600)]  # on a Nano, too

RESNET8 = "resnet8-cifar10"
GRANULE = 2 << 20
"""Allocation granularity of a driver in bytes; a leaked context would be a hundred times as large."""


@pytest.fixture(scope="module", autouse=True)
def gpu() -> None:
    probe = BACKEND.probe()
    if not probe.available:
        pytest.skip(probe.reason)


@pytest.fixture
def held() -> Iterator[Callable[[], int]]:
    """Bytes in use on the device, whoever uses them."""
    device = DeviceContext(0)

    def read() -> int:
        with device:
            free, total = device.cuda.mem_get_info()
        return int(total) - int(free)

    yield read
    device.close()


@pytest.mark.parametrize(
    ("name", "tiles"), [(RESNET8, "measured"), (f"{RESNET8}-paper", "rule"), (f"{RESNET8}-pot5", "rule")]
)
def test_every_bit_of_10000_images(shared_data: Path, name: str, tiles: str) -> None:
    model = load(find(name))
    images = first_images(model, shared_data, 10_000)
    assert len(images) == 10_000
    logits = reference_outputs(model, images)[0]
    with closing(BACKEND.compile(model, {"tiles": tiles})) as session:
        for start in range(0, len(images), 250):
            part = slice(start, start + 250)
            np.testing.assert_array_equal(session.run(images[part])[0], logits[part], strict=True)


@in_parts(by_name(CASES))
def test_the_conformance_table(case: Any) -> None:
    try:
        lower(case.model, ARCHITECTURES["sm_90"])
    except UnsupportedError as error:
        with pytest.raises(BackendError, match=re.escape(str(error))):
            BACKEND.compile(case.model, {"tiles": "rule"})
        return
    with closing(BACKEND.compile(case.model, {"tiles": "rule"})) as session:
        for name, batch in case.batches():
            assert verify(session, case.model, [batch], len(batch), lambda done, total: None) == (len(batch), 0), name


def test_200_sessions_leak_nothing(held: Callable[[], int]) -> None:
    model = load(find(RESNET8))
    assert grown(lambda: BACKEND.compile(model, {"tiles": "rule"}), random_image(model), 200, held) <= GRANULE


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_compute_sanitizer_reports_nothing(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer", path="/usr/local/cuda/bin") or shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not installed (it is part of the CUDA toolkit)")
    script = Path(__file__).with_name("sanitized.py")
    words = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, str(script), RESNET8]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_float32_network_agrees_with_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (extra `train`)")
    from benchmarks.gpu.torch_network import torch_resnet8

    model = load_float_model(find("resnet8-cifar10-float"))
    device = DeviceContext(0)
    plan = float_plan_of(model, device.architecture)
    cubins = Cubins(None, find_compiler(device.architecture))
    device.close()
    x = np.random.default_rng(0).normal(0, 0.5, (64, 32, 32, 3)).astype(np.float32)
    with opened(plan, 0, cubins) as program:
        (logits,) = results = program.new_outputs(len(x))
        program.run(x, results)
    with torch.inference_mode():
        expected = torch_resnet8(model)(torch.from_numpy(x).permute(0, 3, 1, 2)).numpy()
    assert np.abs(logits.reshape(expected.shape) - expected).max() <= 1e-4 * np.abs(expected).max()
