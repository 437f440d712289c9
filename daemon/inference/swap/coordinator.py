"""A swap of models while frames flow: a shadow run, the exchange between two frames, a trial; or all as it was."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.config.swap import SwapConfig
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.inference.swap.replacement import Replacement, SwapError
from edgemeta.daemon.inference.swap.report import SwapReport
from edgemeta.daemon.inference.swap.shadow import Shadow
from edgemeta.daemon.inference.swap.trial import Trial
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.messages.records import SwapResult
from edgemeta.plugins.api import BackendError

log = logging.getLogger(__name__)

LOOKS_EVERY = 0.5
"""Seconds after which a phase is looked at even if nothing has come of it: a hang says nothing."""

ENDS = (SwapResult.SWAPPED, SwapResult.ROLLED_BACK, SwapResult.REFUSED, SwapResult.CANCELLED)
"""How a swap can end."""


class SwapCoordinator:
    """Swaps a service's networks, one swap at a time, and counts how swaps end.

    The worker tells it of every frame; any thread may call `cancel` and `stop`.
    """

    def __init__(
        self, pipelines: Mapping[str, Pipeline], worker: Worker, on_fatal: Callable[[BaseException], None]
    ) -> None:
        worker.watchers.append(self._seen)
        worker.spare = self._failed
        self._worker = worker
        self._pipelines = pipelines
        self._on_fatal = on_fatal
        self._changed = threading.Condition()
        self._shadow: Shadow | None = None
        self._trial: Trial | None = None
        self._given_up: str | None = None
        self._stopped = False
        self.results = {result.value: 0 for result in ENDS}

    @property
    def description(self) -> str | None:
        """What is going on, for people; None where nothing is."""
        shadow, trial = self._shadow, self._trial
        if trial is not None:
            return f"swap of models: trial, {trial.progress}"
        return f"swap of models: shadow run, {shadow.progress}" if shadow is not None else None

    def _seen(self, captured: CapturedFrame, step: FrameResult) -> None:
        """Hear of a frame that was served."""
        shadow, trial = self._shadow, self._trial
        if shadow is not None:
            shadow.seen(captured, step)
        if trial is not None:
            trial.seen(captured, step)

    def _failed(self, camera: str, error: BackendError) -> None:
        """Hear that the backend failed on a frame."""
        trial = self._trial
        if trial is not None:
            trial.failed(camera, error)

    def cancel(self, reason: str) -> None:
        """Give up the swap in flight unless it has come to the exchange, and every later one until `resume`."""
        with self._changed:
            self._given_up = reason
            self._changed.notify_all()

    def resume(self) -> None:
        """Let the next swap run: what was given up is over."""
        with self._changed:
            self._given_up = None

    def stop(self) -> None:
        """Give up the swap in flight, also one on trial, and every later one."""
        with self._changed:
            self._stopped, self._given_up = True, "the service stopped"
            self._changed.notify_all()

    def run(
        self,
        replacements: Sequence[Replacement],
        shadows: Mapping[str, Pipeline],
        config: SwapConfig,
        exchange: Callable[[], None],
        go_back: Callable[[], None],
    ) -> SwapReport:
        """Try the successors, have `exchange` put them to work, watch them; have `go_back` undo that where one fails.

        shadows: by camera, a pipeline over its successor, for the shadow run only.
        """
        report = SwapReport(replacements, {pipeline.network for pipeline in self._pipelines.values()})
        log.info("swap of models: %s", "; ".join(each.description for each in replacements))
        try:
            if config.shadow:
                self._run_shadow(replacements, shadows, config, report)
            self._run_trial(replacements, config, exchange, report)
        except SwapError as error:
            report.result, report.reason = error.result, str(error)
            if error.result is SwapResult.ROLLED_BACK:
                go_back()
        else:
            log.info("%s", report.description)
        self.results[report.result.value] += 1
        return report

    def refused(self) -> None:
        """Count a swap that did not come so far, because the new model cannot be used."""
        self.results[SwapResult.REFUSED.value] += 1

    def _run_shadow(
        self,
        replacements: Sequence[Replacement],
        shadows: Mapping[str, Pipeline],
        config: SwapConfig,
        report: SwapReport,
    ) -> None:
        begun = time.monotonic_ns()
        shadow = Shadow(replacements, shadows, config.shadow, self._changed, self._on_fatal)
        self._shadow = shadow
        shadow.start()
        try:
            self._wait(shadow, "shadow run", config.timeout, SwapResult.REFUSED)
        finally:
            self._shadow = None
            shadow.end()
        report.shadow_ns = time.monotonic_ns() - begun
        report.shadow = shadow
        for each in replacements:
            _judge(shadow, each, config)

    def _run_trial(
        self, replacements: Sequence[Replacement], config: SwapConfig, exchange: Callable[[], None], report: SwapReport
    ) -> None:
        begun = time.monotonic_ns()
        trial = Trial(replacements, self._pipelines, self._worker, config.keep, self._changed)
        report.trial = self._trial = trial
        exchange()
        try:
            self._wait(trial, "trial", config.timeout, SwapResult.ROLLED_BACK)
        except SwapError as error:
            if error.result is SwapResult.ROLLED_BACK:
                trial.go_back()
            raise
        finally:
            self._trial = None
            report.trial_ns = time.monotonic_ns() - begun

    def _wait(self, phase: Shadow | Trial, what: str, timeout: float, failure: SwapResult) -> None:
        """Wait until a phase is done. Raises SwapError where it fails, takes too long or is given up."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                if phase.failure is not None:
                    raise SwapError(failure, f"{what}: {phase.failure}")
                if phase.done:
                    return
                if self._stopped or (self._given_up is not None and failure is SwapResult.REFUSED):
                    raise SwapError(SwapResult.CANCELLED, f"{what}: {self._given_up}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise SwapError(failure, f"{what}: only {phase.progress} came within {timeout:g} s")
                self._changed.wait(min(left, LOOKS_EVERY))


def _judge(shadow: Shadow, replacement: Replacement, config: SwapConfig) -> None:
    """Raise SwapError where a shadow run came to less than the config demands."""
    result = shadow.result(replacement)
    if result.same_label < config.agree:
        raise SwapError(
            SwapResult.REFUSED,
            f"shadow run: {result.same_label:.0%} of {result.frames} frames got the same label "
            f"({replacement.description}), "
            f"expected at least {config.agree:.0%}",
        )
    if config.slowdown is not None and result.after_us > config.slowdown * result.before_us:
        raise SwapError(
            SwapResult.REFUSED,
            f"shadow run: {result.after_us} us for a frame instead of {result.before_us} us "
            f"({replacement.description}), "
            f"expected at most {config.slowdown:g} times as long",
        )
