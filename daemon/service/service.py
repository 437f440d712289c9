"""The service: its parts started, changed while they run, and stopped in order."""

import logging
from collections.abc import Callable, Mapping, Sequence

from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.inference.readers.settings import settings_of
from edgemeta.daemon.inference.swap.replacement import Replacement, Trigger
from edgemeta.daemon.inference.swap.report import SwapReport
from edgemeta.daemon.messages.channels import Channel
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.mqtt.subscriptions import Handler, Incoming, Limit
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.parts import Parts
from edgemeta.daemon.service.plan import Plan

log = logging.getLogger(__name__)

FIRST_CONNECT_WITHIN = 1.0
"""Seconds that cameras wait for the first connection, so that an available broker misses no frame."""

OUTBOX_NEEDS = 0.7
"""Seconds of a stop reserved for the outbox: it writes what is not acknowledged to disk."""

LINK_NEEDS = 0.3
"""Seconds before these in which the link publishes `offline` and disconnects."""


class Service:
    """Starts, changes and stops the parts of one plan.

    on_fatal: called, from any thread, with an unexpected exception.
    """

    def __init__(self, plan: Plan, on_fatal: Callable[[BaseException], None]) -> None:
        self.parts = Parts(plan, on_fatal)
        self.in_use = self.parts.in_use

    def start(self) -> None:
        """Start all parts."""
        parts = self.parts
        if parts.collection is not None:
            parts.collection.collector.start()
        if parts.page is not None:
            parts.page.start()
        self._publish_info()
        parts.telemetry.publish_without_swap(
            "start", SwapResult.SETTLED if self.in_use.refused is None else SwapResult.FALLBACK, self.in_use.refused
        )
        parts.outbox_writer.start()
        parts.cameras.load.start()
        parts.link.start(FIRST_CONNECT_WITHIN)
        parts.worker.start()
        parts.cameras.start()
        parts.stats_timer.start()
        parts.conditions.start()
        for name, loaded in self.in_use.plan.loaded_models.items():
            log.info("camera %s: %s on %s", name, loaded.description, loaded.backend)
        if self.in_use.refused is not None:
            log.warning("the last good models are in use instead: %s", self.in_use.refused)

    def stop(self, deadline: Deadline) -> None:
        """Stop in order: no new frames, finish the current frame, send the last messages, publish `offline`.

        Hung parts are abandoned in time for the outbox to write what is not acknowledged.
        """
        parts = self.parts
        producers = deadline.minus(LINK_NEEDS + OUTBOX_NEEDS)
        if parts.page is not None:
            parts.page.stop(producers.left)
        if parts.collection is not None:
            parts.collection.teacher.stop(0.0)
            parts.collection.collector.stop(0.0)
        parts.fetcher.stop(0.0)
        parts.rollouts.stop(0.0)
        parts.cameras.stop()
        parts.frames.close()
        parts.stats_timer.stop(producers.left)
        parts.conditions.stop(producers.left)
        parts.cameras.load.stop(producers.left)
        parts.cameras.join(producers)
        worker_ended = parts.worker.end(producers.left)
        if worker_ended:
            for name, pipeline in parts.pipelines.items():
                parts.frame_publisher.publish_events(name, pipeline.end())
        parts.snapshots.stop(0.0)
        parts.link.flush(producers.left)
        parts.telemetry.publish_stats()
        parts.outbox_writer.hurry()
        parts.link.close(deadline.minus(OUTBOX_NEEDS).left)
        parts.outbox_writer.close(deadline.left)
        if worker_ended:
            close_all([*self.in_use.plan.loaded_models.values(), *self.in_use.plan.names.values()])
        log.info("stopped")

    def apply(self, plan: Plan) -> None:
        """Apply a plan that differs only in reloadable keys, from the next frame on.

        A camera whose keys changed is restarted; its frame numbers continue.
        """
        config = plan.config
        changed = self.parts.cameras.end_changed(plan)
        for name, pipeline in self.parts.pipelines.items():
            pipeline.set_settings(settings_of(config, name))
            pipeline.set_model(plan.loaded_models[name])
        self.parts.worker.batch = config.batch
        self.parts.stats_timer.set_period(config.stats.interval)
        self.parts.cameras.adjust(plan)
        self.in_use.plan = plan
        self._publish_info()
        self.parts.cameras.restart(changed)

    def swap(self, replacements: Sequence[Replacement], plan: Plan, trigger: Trigger, of_config: bool) -> SwapReport:
        """Apply a plan with other models if they pass on live frames; otherwise keep the present ones.

        of_config: whether the config file names them, rather than a command.
        """
        running, parts = self.in_use.plan, self.parts
        cameras = [(camera, each.after) for each in replacements for camera in each.cameras]
        shadows = {
            camera: parts.pipeline(camera, loaded, plan.config)
            for camera, loaded in cameras
            if running.config.cameras[camera].enabled and plan.config.cameras[camera].enabled
        }
        report = parts.swaps.run(
            replacements, shadows, plan.config.swap, lambda: self.apply(plan), lambda: self.apply(running)
        )
        parts.telemetry.publish_swap(trigger, report)
        if of_config and report.reason is not None and report.result is not SwapResult.CANCELLED:
            parts.last_good.record_failed(replacements, report.reason)
            self._set_refused(report.reason)
        return report

    def report_refused(self, trigger: Trigger, reason: str, of_config: bool) -> None:
        """Report a swap that was refused because the new model cannot be used; `of_config` as for `swap`."""
        self.parts.swaps.refused()
        self.parts.telemetry.publish_without_swap(trigger, SwapResult.REFUSED, reason)
        if of_config:
            self._set_refused(reason)

    def report_settled(self, trigger: Trigger) -> None:
        """Record that the config's models are in use, and publish it where the last message said something else."""
        self.parts.last_good.record(self.in_use.plan)
        self._set_refused(None)
        if self.parts.telemetry.last_swap not in (SwapResult.SWAPPED, SwapResult.SETTLED):
            log.info("the models of the config are in use again")
            self.parts.telemetry.publish_without_swap(trigger, SwapResult.SETTLED)

    def register_commands(self, handlers: Mapping[Channel, Handler], refuse: Callable[[Incoming, str], None]) -> None:
        """Subscribe to commands if the config enables them; call before `start`. refuse: above the rate limit."""
        config, parts = self.in_use.plan.config.mqtt, self.parts
        if config.commands:
            for channel, handler in handlers.items():
                parts.link.subscribe(parts.topics.of(channel), handler, Limit(config.max_commands_per_second, refuse))

    def _set_refused(self, reason: str | None) -> None:
        if reason != self.in_use.refused:
            self.in_use.refused = reason
            self.parts.telemetry.publish_info()

    def _publish_info(self) -> None:
        self.parts.telemetry.publish_info()
        self.parts.announce()
