"""How long a program's parts take, by the device's own clock: back to back, so that the host's calls do not count."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from edgemeta.kernels.cuda.plan.plan import Launch
from edgemeta.plugins.cuda.program import Program


class Stopwatch:
    """Times pieces of work of a program on the device; made, used and closed inside `with device:`.

    images: of the batch; the program has run such a batch before, so that its memory is there. repeats: how often a
    piece runs in a row, whose mean is the result.
    """

    def __init__(self, program: Program, images: int = 1, repeats: int = 20) -> None:
        self._program = program
        self._images = images
        self._repeats = repeats
        self._begin: Any = program.device.cuda.Event()
        self._end: Any = program.device.cuda.Event()

    def launch_us(self, launch: Launch) -> float:
        """Microseconds of one launch."""
        return self._mean_us(launch, lambda: self._program.enqueue_launch(launch, self._images))

    def network_us(self) -> float:
        """Microseconds of all launches, input and output on the device."""
        return self._mean_us(None, lambda: self._program.enqueue_launches(self._images))

    def close(self) -> None:
        """Give the events back."""
        self._begin = self._end = None

    def _mean_us(self, piece: Launch | None, enqueue: Callable[[], None]) -> float:
        key = (Stopwatch, piece, self._images, self._repeats)
        sequence = self._program.sequence(key, lambda: self._repeat(enqueue))
        return self._elapsed_us(sequence) / self._repeats

    def _repeat(self, enqueue: Callable[[], None]) -> None:
        for _ in range(self._repeats):
            enqueue()

    def _elapsed_us(self, sequence: Any) -> float:
        stream = self._program.device.stream
        self._begin.record(stream)
        sequence.launch()
        self._end.record(stream)
        self._end.synchronize()
        return float(self._begin.time_till(self._end)) * 1000


def host_us(program: Program, image: np.ndarray[Any, Any], logits: np.ndarray[Any, Any]) -> float:
    """Microseconds from an image's integers in host memory to its logits there, by the host's clock."""
    begin = time.perf_counter_ns()
    program.run(image, logits)
    return (time.perf_counter_ns() - begin) / 1000
