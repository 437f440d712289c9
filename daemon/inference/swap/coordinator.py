"""Swaps models while frames flow: shadow run, replacement between two frames, trial; reverted on failure."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.config.error_text import for_log, reason_of
from edgemeta.daemon.config.swap import SwapConfig
from edgemeta.daemon.inference.pipeline import FrameResult, Pipeline
from edgemeta.daemon.inference.swap.replacement import Replacement, SwapError
from edgemeta.daemon.inference.swap.report import SwapReport
from edgemeta.daemon.inference.swap.shadow import Shadow
from edgemeta.daemon.inference.swap.trial import Trial
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.plugins.api import BackendError

log = logging.getLogger(__name__)

LOOKS_EVERY = 0.5
"""Seconds after which a phase is checked without a notification: a hang sends none."""

ENDS = (SwapResult.SWAPPED, SwapResult.ROLLED_BACK, SwapResult.REFUSED, SwapResult.CANCELLED)
"""Results of a swap."""


class SwapCoordinator:
    """Swaps the models of a service, one swap at a time, and counts the results.

    The worker calls it for every frame; any thread may call `cancel` and `stop`.
    """

    def __init__(
        self, pipelines: Mapping[str, Pipeline], worker: Worker, on_fatal: Callable[[BaseException], None]
    ) -> None:
        worker.frame_listeners.append(self._on_frame)
        worker.on_backend_error = self._on_error
        self._worker = worker
        self._pipelines = pipelines
        self._on_fatal = on_fatal
        self._changed = threading.Condition()
        self._shadow: Shadow | None = None
        self._trial: Trial | None = None
        self._cancelled: str | None = None
        self._stopped = False
        self.results = {result.value: 0 for result in ENDS}

    @property
    def description(self) -> str | None:
        """The phase of the swap in progress and how far it is; None where there is none."""
        shadow, trial = self._shadow, self._trial
        if trial is not None:
            return f"swap of models: trial, {trial.progress}"
        return f"swap of models: shadow run, {shadow.progress}" if shadow is not None else None

    def _on_frame(self, captured: CapturedFrame, step: FrameResult) -> None:
        """Pass a classified frame to the phase in progress."""
        shadow, trial = self._shadow, self._trial
        if shadow is not None:
            shadow.on_frame(captured, step)
        if trial is not None:
            trial.on_frame(captured, step)

    def _on_error(self, camera: str, error: BackendError) -> None:
        """Pass an error of the backend to the trial in progress."""
        trial = self._trial
        if trial is not None:
            trial.on_error(camera, error)

    def cancel(self, reason: str) -> None:
        """Cancel the swap in progress unless the models are already replaced, and every later one until `resume`."""
        with self._changed:
            self._cancelled = reason
            self._changed.notify_all()

    def resume(self) -> None:
        """Allow swaps again after `cancel`."""
        with self._changed:
            self._cancelled = None

    def stop(self) -> None:
        """Cancel the swap in progress, also during its trial, and every later one."""
        with self._changed:
            self._stopped, self._cancelled = True, "the service stopped"
            self._changed.notify_all()

    def run(
        self,
        replacements: Sequence[Replacement],
        shadows: Mapping[str, Pipeline],
        config: SwapConfig,
        apply: Callable[[], None],
        revert: Callable[[], None],
    ) -> SwapReport:
        """Run the new models beside the old ones, `apply` the replacement, watch the trial, `revert` if one fails.

        shadows: by camera, a pipeline with its new model, for the shadow run only. Replacements without one, of cameras
        that are disabled, have no frames to be tried on: they are applied with the others.
        """
        report = SwapReport(replacements, {pipeline.loaded for pipeline in self._pipelines.values()})
        replacements = [each for each in replacements if shadows.keys() & set(each.cameras)]
        log.info("swap of models: %s", "; ".join(each.description for each in report.replacements))
        try:
            if replacements and config.shadow_frames:
                self._run_shadow(replacements, shadows, config, report)
            if replacements:
                self._run_trial(replacements, config, apply, report)
            else:
                apply()
        except SwapError as error:
            report.result, report.reason = error.result, str(error)
            if error.result is SwapResult.ROLLED_BACK:
                revert()
        except Exception as error:
            report.result, report.reason = SwapResult.ROLLED_BACK, reason_of(error)
            log.error("swap of models: %s", report.reason, exc_info=for_log(error))
            revert()
        else:
            log.info("%s", report.description)
        self.results[report.result.value] += 1
        return report

    def refused(self) -> None:
        """Count a swap that was refused because the new model cannot be used."""
        self.results[SwapResult.REFUSED.value] += 1

    def _run_shadow(
        self,
        replacements: Sequence[Replacement],
        shadows: Mapping[str, Pipeline],
        config: SwapConfig,
        report: SwapReport,
    ) -> None:
        started = time.monotonic_ns()
        shadow = Shadow(replacements, shadows, config.shadow_frames, self._changed, self._on_fatal)
        self._shadow = shadow
        shadow.start()
        try:
            self._wait(shadow, "shadow run", config.timeout, SwapResult.REFUSED)
        finally:
            self._shadow = None
            shadow.end()
        report.shadow_ns = time.monotonic_ns() - started
        report.shadow = shadow
        for each in replacements:
            _judge(shadow, each, config)

    def _run_trial(
        self, replacements: Sequence[Replacement], config: SwapConfig, apply: Callable[[], None], report: SwapReport
    ) -> None:
        started = time.monotonic_ns()
        trial = Trial(replacements, self._pipelines, self._worker, config.trial_frames, self._changed)
        report.trial = self._trial = trial
        apply()
        try:
            self._wait(trial, "trial", config.timeout, SwapResult.ROLLED_BACK)
        except SwapError as error:
            if error.result is SwapResult.ROLLED_BACK:
                trial.revert()
            raise
        finally:
            self._trial = None
            report.trial_ns = time.monotonic_ns() - started

    def _wait(self, phase: Shadow | Trial, what: str, timeout: float, failure: SwapResult) -> None:
        """Wait until a phase is done. Raises SwapError where it fails, takes too long or is cancelled."""
        deadline = AWAKE.now() + timeout
        with self._changed:
            while True:
                if phase.failure is not None:
                    raise SwapError(failure, f"{what}: {phase.failure}")
                if phase.done:
                    return
                if self._stopped or (self._cancelled is not None and failure is SwapResult.REFUSED):
                    raise SwapError(SwapResult.CANCELLED, f"{what}: {self._cancelled}")
                left = deadline - AWAKE.now()
                if left <= 0:
                    raise SwapError(failure, f"{what}: only {phase.progress} within {timeout:g} s")
                self._changed.wait(min(left, LOOKS_EVERY))


def _judge(shadow: Shadow, replacement: Replacement, config: SwapConfig) -> None:
    """Raise SwapError where the result of a shadow run is below the limits of the config."""
    result = shadow.result(replacement)
    assert result is not None
    if result.same_label < config.min_agreement:
        raise SwapError(
            SwapResult.REFUSED,
            f"shadow run: {result.same_label:.0%} of {result.frames} frames got the same label "
            f"({replacement.description}), "
            f"expected at least {config.min_agreement:.0%}",
        )
    if config.max_slowdown is not None and result.after_us > config.max_slowdown * result.before_us:
        raise SwapError(
            SwapResult.REFUSED,
            f"shadow run: {result.after_us} us per frame instead of {result.before_us} us "
            f"({replacement.description}), "
            f"expected at most {config.max_slowdown:g} times as long",
        )
