"""The shipped networks on real images: equal to the reference for every generation and thread order."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from tests.conformance.on_all_cores import reference_outputs
from tests.emulation.executor import Emulator, Order

IMAGES, SOME, FEW = 200, 5, 2


@cache
def shipped(name: str) -> Model:
    return load(find(name))


@cache
def expected(name: str, data: Path, count: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Images as the network takes them, and their logits."""
    model = shipped(name)
    images = load_dataset(data / "cifar10" / "test.npz", labels=CIFAR10_LABELS).x[:count]
    prepare = make_preprocessor(model, images.shape[1:])
    batch = np.concatenate([prepare(np.ascontiguousarray(image[..., ::-1])).copy() for image in images])
    run = reference.run if count <= SOME else reference_outputs
    return batch, run(model, batch)[0]


@pytest.mark.gate("4 s each, 20 s of many images: networks, emulated; one: tests/plugins/cuda/test_session.py")
@pytest.mark.parametrize("count", [SOME, IMAGES])
@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5"])
def test_real_images(name: str, architecture: str, count: int, shared_data: Path) -> None:
    batch, logits = expected(name, shared_data, count)
    plan = lower(shipped(name), ARCHITECTURES[architecture])
    mode = "fast" if count > SOME else "quick"
    np.testing.assert_array_equal(Emulator(plan, mode=mode).run(batch)[0], logits, strict=True)
    orders: tuple[Order, ...] = ("reverse", 1)
    for order in orders:
        emulator = Emulator(plan, order, mode, poison=0x3B)
        np.testing.assert_array_equal(emulator.run(batch[:FEW])[0], logits[:FEW], strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5"])
def test_every_architecture(name: str, architecture: str, shared_data: Path) -> None:
    batch, logits = expected(name, shared_data, IMAGES)
    plan = lower(shipped(name), ARCHITECTURES[architecture])
    orders: tuple[Order, ...] = ("forward", "reverse", 1)
    for order in orders:
        np.testing.assert_array_equal(Emulator(plan, order).run(batch)[0], logits, strict=True)
