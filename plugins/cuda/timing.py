"""Times the launches of a loaded plan by the device's clock: back to back, so that host calls do not count."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from edgemeta.kernels.cuda.plan.launch_plan import Launch
from edgemeta.plugins.api import Outputs
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan


class Stopwatch:
    """Times launches of a loaded plan on the device; created, used and closed inside `with device:`.

    images: batch size; the plan must have run such a batch before, so that its memory exists. repeats: number of runs
    in a row, of which the result is the mean.
    """

    def __init__(self, loaded: LoadedPlan, images: int = 1, repeats: int = 20) -> None:
        self._loaded = loaded
        self._images = images
        self._repeats = repeats
        self._begin: Any = loaded.device.cuda.Event()
        self._end: Any = loaded.device.cuda.Event()

    def launch_us(self, launch: Launch) -> float:
        """Microseconds of one launch."""
        return self._mean_us(launch, lambda: self._loaded.enqueue_launch(launch, self._images))

    def network_us(self) -> float:
        """Microseconds of all launches, input and output on the device."""
        return self._mean_us(None, lambda: self._loaded.enqueue_launches(self._images))

    def close(self) -> None:
        """Release the events."""
        self._begin = self._end = None

    def _mean_us(self, piece: Launch | None, enqueue: Callable[[], None]) -> float:
        key = (Stopwatch, piece, self._images, self._repeats)
        sequence = self._loaded.sequence(key, lambda: self._repeat(enqueue))
        return self._elapsed_us(sequence) / self._repeats

    def _repeat(self, enqueue: Callable[[], None]) -> None:
        for _ in range(self._repeats):
            enqueue()

    def _elapsed_us(self, sequence: Any) -> float:
        stream = self._loaded.device.stream
        self._begin.record(stream)
        sequence.launch()
        self._end.record(stream)
        self._end.synchronize()
        return float(self._begin.time_till(self._end)) * 1000


def host_us(loaded: LoadedPlan, image: np.ndarray[Any, Any], outputs: Outputs) -> float:
    """Microseconds from an image [1, H, W, C] in host memory to its outputs there, by the host's clock."""
    begin = time.perf_counter_ns()
    loaded.run(image, outputs)
    return (time.perf_counter_ns() - begin) / 1000
