"""The shadow run: frames that the running models have just classified are also classified by the new models.

It runs in its own thread, and a live frame never waits for it: its message is queued before the frame is offered here.
A frame that arrives while the new model is busy replaces the one that waits.
"""

import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.config.error_text import reason_of
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.inference.swap.replacement import Replacement
from edgemeta.daemon.messages.swaps import ShadowResult
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.threads import guarded_thread

ENDS_WITHIN = 1.0
"""Seconds that `end` waits for a run in progress."""

FRAME_WITHIN = 10.0
"""Seconds after which a new model that has not classified one frame counts as hung."""


@dataclass
class _Comparison:
    """Results of one replacement: equal labels; times of preprocessing and inference together, in ns."""

    same: int = 0
    live: list[int] = field(default_factory=list)
    shadow: list[int] = field(default_factory=list)


class Shadow:
    """Runs each new model on a number of frames. `changed` is notified on progress and on failure."""

    def __init__(
        self,
        replacements: Sequence[Replacement],
        pipelines: Mapping[str, Pipeline],
        frames: int,
        changed: threading.Condition,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self._replacements = {camera: replacement for replacement in replacements for camera in replacement.cameras}
        self._pipelines = pipelines
        self._wanted = frames
        self._changed = changed
        self._comparisons = {replacement: _Comparison() for replacement in replacements}
        self._waiting: tuple[CapturedFrame, FrameResult] | None = None
        self._busy_since: float | None = None
        self._ended = False
        self._failure: str | None = None
        self._thread = guarded_thread("shadow", self._run, on_fatal)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def end(self) -> None:
        """Stop. A new model that hangs is abandoned; its run in progress closes it."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(ENDS_WITHIN)

    def on_frame(self, captured: CapturedFrame, step: FrameResult) -> None:
        """Offer a classified frame, from the worker's thread."""
        with self._changed:
            if self._needs(captured.camera):
                self._waiting = (captured, step)
                self._changed.notify_all()

    @property
    def done(self) -> bool:
        """Whether every replacement has had its frames."""
        return all(len(comparison.live) >= self._wanted for comparison in self._comparisons.values())

    @property
    def failure(self) -> str | None:
        """Reason why the shadow run must fail, or None."""
        if self._failure is None and self._busy_since is not None:
            lasting = AWAKE.now() - self._busy_since
            return f"no answer to a frame within {FRAME_WITHIN:g} s" if lasting > FRAME_WITHIN else None
        return self._failure

    @property
    def progress(self) -> str:
        """Progress, for log lines."""
        least = min(len(comparison.live) for comparison in self._comparisons.values())
        return f"{least} of {self._wanted} frames"

    def result(self, replacement: Replacement) -> ShadowResult | None:
        """Return the result of one replacement that has had its frames; None of one that was not tried."""
        comparison = self._comparisons.get(replacement)
        if comparison is None:
            return None
        return ShadowResult(
            frames=len(comparison.live),
            same_label=round(comparison.same / len(comparison.live), 4),
            before_us=round(statistics.median(comparison.live) / 1000),
            after_us=round(statistics.median(comparison.shadow) / 1000),
        )

    def _run(self) -> None:
        while (offered := self._take()) is not None:
            captured, served = offered
            try:
                frame = served.fields
                step = self._pipelines[captured.camera].classify(captured, frame["dropped"], frame["withheld"])
            except Exception as error:  # noqa: BLE001 - fails the swap, not the service
                self._fail(reason_of(error))
                return
            self._compare(self._comparisons[self._replacements[captured.camera]], served, step)

    def _needs(self, camera: str) -> bool:
        """Whether a frame of this camera would be compared."""
        replacement = self._replacements.get(camera)
        return replacement is not None and len(self._comparisons[replacement].live) < self._wanted

    def _take(self) -> tuple[CapturedFrame, FrameResult] | None:
        """Wait for the next frame; None at the end."""
        with self._changed:
            self._busy_since = None
            self._changed.wait_for(lambda: self._waiting is not None or self._ended)
            taken, self._waiting = self._waiting, None
            self._busy_since = AWAKE.now()
            return None if self._ended else taken

    def _compare(self, comparison: _Comparison, served: FrameResult, step: FrameResult) -> None:
        same = _answer(served) == _answer(step)
        with self._changed:
            comparison.same += same
            comparison.live.append(_work(served))
            comparison.shadow.append(_work(step))
            if self._waiting is not None and not self._needs(self._waiting[0].camera):
                self._waiting = None  # offered while the last frame that counts was being classified
            self._changed.notify_all()

    def _fail(self, reason: str) -> None:
        with self._changed:
            self._failure = reason
            self._changed.notify_all()


def _answer(step: FrameResult) -> tuple[str, ...]:
    """What two models must agree on: the labels of all objects, sorted, or for other tasks the best label."""
    objects = step.fields["objects"]
    if objects is not None:
        return tuple(sorted(each["label"] for each in objects))
    return () if step.best is None else (step.best["label"],)


def _work(step: FrameResult) -> int:
    """Nanoseconds that a model took for a frame."""
    return step.stages["preprocess"] + step.stages["inference"]
