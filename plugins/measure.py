"""Verifies a session against the reference and measures its latency."""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from edgemeta.model import reference
from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import Model
from edgemeta.plugins.api import Batch, Outputs, Session

T = TypeVar("T")
WARM_UP_RUNS = 50
WARM_UP_SECONDS = 2.0
"""A warm-up ends at the first of both."""
MIN_RUNS = 3
_PROGRESS_SECONDS = 0.2


@dataclass(frozen=True)
class Timing:
    """Microseconds from input tensor to outputs, batch 1, of `runs` runs.

    stages: median of every step, if the backend reports them.
    """

    runs: int
    median_us: float
    p99_us: float
    min_us: float
    stages: Mapping[str, float]


@runtime_checkable
class Profiled(Protocol):
    """A session that can measure its steps."""

    def profile(self, image: Batch) -> Mapping[str, float]:
        """Run a batch of one and return the microseconds of every step, in execution order."""
        ...


def verify(
    session: Session,
    model: Model,
    batches: Iterable[Batch],
    total: int,
    progress: Progress,
    compare: Callable[[Outputs, Outputs], None] | None = None,
) -> tuple[int, int]:
    """Compare every output with the reference's; returns the number of images and of those with any difference.

    total: number of images expected. progress: called after each batch. compare: called with the outputs of each batch,
    found and expected, if they have the same shapes and types.
    """
    images = mismatches = 0
    for batch in batches:
        expected, outputs = reference.run(model, batch), session.run(batch)
        differs, all_alike = np.zeros(len(batch), bool), True
        for found, wanted in zip(outputs, expected, strict=True):
            is_alike = found.shape == wanted.shape and found.dtype == wanted.dtype
            differs |= (found != wanted).any(axis=(1, 2, 3)) if is_alike else True
            all_alike &= is_alike
        if compare is not None and all_alike:
            compare(outputs, expected)
        images += len(batch)
        mismatches += int(np.count_nonzero(differs))
        progress(images, total)
    return images, mismatches


def bench(
    session: Session, model: Model, runs: int, paced_ms: float, progress: Progress, seconds: float = math.inf
) -> Timing:
    """Time `runs` runs of one random image, after a warm-up; `paced_ms` > 0 waits that long before each, like a camera.

    Steps are profiled at the same pace. During the waits a processor loses cache content and clock rate, so paced times
    are those that a service has.
    seconds: after this time no run begins, once there are MIN_RUNS.
    """
    image = random_image(model)
    _repeat(lambda: session.run(image))
    nanoseconds: list[int] = []
    end = time.monotonic() + seconds
    shown = -math.inf
    while len(nanoseconds) < runs and (len(nanoseconds) < MIN_RUNS or time.monotonic() < end):
        if time.monotonic() - shown > _PROGRESS_SECONDS:
            progress(len(nanoseconds), runs)
            shown = time.monotonic()
        if paced_ms > 0:
            time.sleep(paced_ms / 1000)
        begin = time.perf_counter_ns()
        session.run(image)
        nanoseconds.append(time.perf_counter_ns() - begin)
    progress(len(nanoseconds), len(nanoseconds))
    microseconds = np.array(nanoseconds) / 1000
    return Timing(
        runs=len(nanoseconds),
        median_us=round(float(np.median(microseconds)), 2),
        p99_us=round(float(np.percentile(microseconds, 99)), 2),
        min_us=round(float(microseconds.min()), 2),
        stages=_stages(session, image, paced_ms) if isinstance(session, Profiled) else {},
    )


def random_image(model: Model) -> Batch:
    """A batch of one, uniformly random over the input type's integers, the same on every call."""
    kind = model.input
    integers = np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (1, *kind.shape))
    return integers.astype(np.int8) if kind.signed else integers.astype(np.uint8)


def _stages(session: Profiled, image: Batch, paced_ms: float) -> dict[str, float]:
    def profile() -> Mapping[str, float]:
        time.sleep(paced_ms / 1000)
        return session.profile(image)

    profiles = _repeat(profile)
    return {name: round(float(np.median([profile[name] for profile in profiles])), 2) for name in profiles[0]}


def _repeat(run: Callable[[], T]) -> list[T]:
    """What WARM_UP_RUNS runs give, or as many as begin in WARM_UP_SECONDS."""
    end = time.monotonic() + WARM_UP_SECONDS
    found = [run()]
    while len(found) < WARM_UP_RUNS and time.monotonic() < end:
        found.append(run())
    return found
