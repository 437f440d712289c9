"""Our own networks, loaded onto the device while they are measured."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.graph import CapturedGraph
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan


@contextmanager
def opened(plan: LaunchPlan, number: int, cubins: Cubins) -> Iterator[LoadedPlan]:
    """Load a plan onto device `number`, in a context of its own, which is current inside the `with` block."""
    device = DeviceContext(number)
    try:
        with device:
            loaded = LoadedPlan(device, plan, cubins, CapturedGraph)
            try:
                yield loaded
            finally:
                loaded.close()
    finally:
        device.close()


def random_batch(plan: LaunchPlan, images: int) -> NDArray[Any]:
    """Random images of the plan's input type, the same on every call: integers, or normal numbers for float32."""
    rng = np.random.default_rng(0)
    shape, dtype = (images, *plan.input.shape), np.dtype(plan.input.kind.dtype)
    if dtype == np.float32:
        return rng.normal(0, 0.5, shape).astype(np.float32)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
