"""The service: built from a plan, started, and stopped in order."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from edgemeta import __version__
from edgemeta.daemon.capture.camera import CameraStatus
from edgemeta.daemon.capture.latest_frames import LatestFrames
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.inference.pipeline import Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import settings_of
from edgemeta.daemon.inference.swap.coordinator import SwapCoordinator
from edgemeta.daemon.inference.swap.replacement import Replacement, Trigger
from edgemeta.daemon.inference.swap.report import SwapReport
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.channels import AVAILABILITY, FRAME, Channel, Topics
from edgemeta.daemon.messages.swaps import SwapResult
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.metrics.delivery_counters import DeliveryCounters
from edgemeta.daemon.metrics.health import Health, broker_description
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from edgemeta.daemon.mqtt.homeassistant.discovery import Discovery
from edgemeta.daemon.mqtt.homeassistant.entities import DeviceView, view_of
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.files import file_of
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.mqtt.removed_cameras import RemovedCameras
from edgemeta.daemon.mqtt.subscriptions import Handler, Incoming, Limit
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.runtime.periodic import Periodic
from edgemeta.daemon.service.cameras import Cameras
from edgemeta.daemon.service.conditions import Conditions
from edgemeta.daemon.service.frame_publisher import FramePublisher
from edgemeta.daemon.service.last_good_recorder import LastGoodRecorder
from edgemeta.daemon.service.plan import Plan
from edgemeta.daemon.service.telemetry import Telemetry
from edgemeta.daemon.web.recent_frames import RecentFrames
from edgemeta.daemon.web.state import ServiceView

if TYPE_CHECKING:
    from edgemeta.daemon.collect.collection import CollectionService
    from edgemeta.daemon.web.server import WebServer

log = logging.getLogger(__name__)

FIRST_CONNECT_WITHIN = 1.0
"""Seconds that cameras wait for the first connection, so that an available broker misses no frame."""

OUTBOX_NEEDS = 0.7
"""Seconds of a stop reserved for the outbox: it writes what is not acknowledged to disk."""

LINK_NEEDS = 0.3
"""Seconds before these in which the link publishes `offline` and disconnects."""


class Service:
    """Cameras, worker, telemetry and link of one plan.

    on_fatal: called, from any thread, with an unexpected exception.
    """

    def __init__(self, plan: Plan, on_fatal: Callable[[BaseException], None]) -> None:
        config = plan.config
        names = list(config.cameras)
        self.plan = plan
        self.identity = Identity(config.device, uuid.uuid4().hex)
        self._clock = Clock()
        self._frames = LatestFrames(names)
        self._counters = {name: FrameCounters() for name in names}
        self._latencies = StageLatencies()
        self._topics = topics = Topics(config.mqtt.base_topic, config.device)
        delivery_counters = DeliveryCounters(
            {topics.of(FRAME, name): self._counters[name] for name in names}, self._latencies
        )
        self._outbox = Outbox(config.mqtt.outbox, delivery_counters.dropped)
        file = file_of(config)
        self._outbox_writer = OutboxWriter(
            self._outbox, config.mqtt.outbox, file, self.identity.boot, self._clock, on_fatal
        )
        client_id = config.mqtt.client_id or f"edgemeta-{config.device}"
        self._link = MqttLink(
            config.mqtt, client_id, topics.of(AVAILABILITY), self._outbox, delivery_counters, on_fatal
        )
        self.publisher = Publisher(self._link, topics, config.mqtt.qos)
        self._cameras = Cameras(
            *(plan, self._frames, self._counters, lambda camera: self._link.refusal(topics.of(FRAME, camera))),
            *(self._publish_status, on_fatal),
        )
        self._load = self._cameras.load
        self._conditions = Conditions(
            *(names, self._clock, self._load, lambda: self._cameras.statuses, self._works),
            *(self._publish_again, self._publish_change, on_fatal),
        )
        self._telemetry = Telemetry(
            *(self.identity, self._clock, self.publisher, self._link, self._outbox),
            *(self._frames, self._counters, self._latencies, self._conditions),
        )
        self._link.listeners.append(RemovedCameras(self._link, topics, names))
        self._discovery = Discovery(self._link, config.homeassistant, self._device_view(plan))
        self._pipelines = {
            name: Pipeline(self.identity, name, loaded, settings_of(config, name), self._clock)
            for name, loaded in plan.loaded_models.items()
        }
        seen = RecentFrames(names, config.web.show_frames)
        frame_publisher = FramePublisher(self.publisher, self._counters, self._latencies)
        self._worker = Worker(self._frames, self._pipelines, self._counters, frame_publisher.publish, on_fatal)
        self._worker.batch = config.batch
        self.swaps = SwapCoordinator(self._pipelines, self._worker, on_fatal)
        if config.web.enabled:
            self._worker.frame_listeners.append(seen.add)
        self.refused = plan.refused
        """Reason why a model named by the config is not in use; None where all of them are."""
        self.last_good = LastGoodRecorder(plan)
        self._on_fatal = on_fatal
        self._heartbeats = [self._worker.heartbeat, *self._link.heartbeats]
        self._stats_timer = Periodic("stats", config.stats.interval, self._telemetry.publish_stats, on_fatal)
        self.collection = self._make_collection() if config.web.enabled else None
        """Collecting and teaching; None where the config does not allow them."""
        self._page = self._make_page(seen) if config.web.enabled else None

    def start(self) -> None:
        """Start all parts."""
        if self.collection is not None:
            self.collection.collector.start()
        if self._page is not None:
            self._page.start()
        self._publish_info()
        self._telemetry.publish_without_swap(
            "start", SwapResult.SETTLED if self.refused is None else SwapResult.FALLBACK, self.refused
        )
        self._outbox_writer.start()
        self._load.start()
        self._link.start(FIRST_CONNECT_WITHIN)
        self._worker.start()
        self._cameras.start()
        self._stats_timer.start()
        self._conditions.start()
        for name, loaded in self.plan.loaded_models.items():
            log.info("camera %s: %s on %s", name, loaded.description, loaded.backend)
        if self.refused is not None:
            log.warning("the last good models are in use instead: %s", self.refused)

    def stop(self, deadline: Deadline) -> None:
        """Stop in order: no new frames, finish the current frame, send the last messages, publish `offline`.

        Hung parts are abandoned in time for the outbox to write what is not acknowledged.
        """
        producers = deadline.minus(LINK_NEEDS + OUTBOX_NEEDS)
        if self._page is not None:
            self._page.stop(producers.left)
        if self.collection is not None:
            self.collection.teacher.stop(0.0)
            self.collection.collector.stop(0.0)
        self._cameras.stop()
        self._frames.close()
        self._stats_timer.stop(producers.left)
        self._conditions.stop(producers.left)
        self._load.stop(producers.left)
        self._cameras.join(producers)
        worker_ended = self._worker.end(producers.left)
        self._link.flush(producers.left)
        self._telemetry.publish_stats()
        self._outbox_writer.hurry()
        self._link.close(deadline.minus(OUTBOX_NEEDS).left)
        self._outbox_writer.close(deadline.left)
        if worker_ended:
            close_all(self.plan.loaded_models.values())
        log.info("stopped")

    def apply(self, plan: Plan) -> None:
        """Apply a plan that differs only in reloadable keys, from the next frame on.

        A camera whose keys changed is restarted; its frame numbers continue.
        """
        config = plan.config
        changed = self._cameras.end_changed(self.plan, plan)
        for name, pipeline in self._pipelines.items():
            pipeline.set_settings(settings_of(config, name))
            pipeline.set_model(plan.loaded_models[name])
        self._worker.batch = config.batch
        self._stats_timer.set_period(config.stats.interval)
        self.plan = plan
        self._publish_info()
        self._cameras.restart(changed, plan)

    def swap(self, replacements: Sequence[Replacement], plan: Plan, trigger: Trigger, of_config: bool) -> SwapReport:
        """Apply a plan with other models if they pass on live frames; otherwise keep the present ones.

        of_config: whether the config file names them, rather than a command.
        """
        running = self.plan
        shadows = {
            camera: Pipeline(self.identity, camera, each.after, settings_of(plan.config, camera), self._clock)
            for each in replacements
            for camera in each.cameras
        }
        report = self.swaps.run(
            replacements, shadows, plan.config.swap, lambda: self.apply(plan), lambda: self.apply(running)
        )
        self._telemetry.publish_swap(trigger, report)
        if of_config and report.reason is not None and report.result is not SwapResult.CANCELLED:
            self.last_good.record_failed(replacements, report.reason)
            self._set_refused(report.reason)
        return report

    def report_refused(self, trigger: Trigger, reason: str, of_config: bool) -> None:
        """Report a swap that was refused because the new model cannot be used; `of_config` as for `swap`."""
        self.swaps.refused()
        self._telemetry.publish_without_swap(trigger, SwapResult.REFUSED, reason)
        if of_config:
            self._set_refused(reason)

    def report_settled(self, trigger: Trigger) -> None:
        """Record that the config's models are in use, and publish it where the last message said something else."""
        self.last_good.record(self.plan)
        self._set_refused(None)
        if self._telemetry.last_swap not in (SwapResult.SWAPPED, SwapResult.SETTLED):
            log.info("the models of the config are in use again")
            self._telemetry.publish_without_swap(trigger, SwapResult.SETTLED)

    def _set_refused(self, reason: str | None) -> None:
        if reason != self.refused:
            self.refused = reason
            self._telemetry.publish_info(self.plan, reason)

    def register_commands(self, handlers: Mapping[Channel, Handler], refuse: Callable[[Incoming, str], None]) -> None:
        """Subscribe to commands if the config enables them; call before `start`. refuse: above the rate limit."""
        config = self.plan.config.mqtt
        if config.commands:
            for channel, handler in handlers.items():
                self._link.subscribe(self._topics.of(channel), handler, Limit(config.max_commands_per_second, refuse))

    def health(self) -> Health:
        """A health snapshot of the service."""
        cameras, link = self._cameras.statuses, self._link.status
        return Health(
            frames=sum(counters.processed for counters in self._counters.values()),
            cameras={name: status.description if status else "not started" for name, status in cameras.items()},
            broker=broker_description(self.plan.config.mqtt, link, self._link.stats, self._outbox.stats),
            inbox=self._link.inbox.problem,
            page=self._page.problem if self._page is not None else None,
            swap=self.swaps.description,
            refused=self.refused,
            hanging_threads=self._hanging,
            overloaded=self._conditions.overloaded,
            ready=self._conditions.ready,
        )

    def snapshot(self) -> MetricsSnapshot:
        """Return a snapshot of all counters. Any thread may call this."""
        return MetricsSnapshot(
            device=self.identity.device,
            version=__version__,
            config_sha256=self.plan.config_sha256,
            uptime=self._telemetry.uptime,
            clock_synchronized=self._clock.synchronized,
            hanging=len(self._hanging),
            overloaded=self._conditions.overloaded is not None,
            thread_delay=self._load.delay,
            cameras=self._cameras.snapshots(self.plan),
            stages=self._latencies.histograms(),
            broker=self._link.status.state,
            link=self._link.stats,
            outbox=self._outbox.stats,
            wants_disk=self.plan.config.mqtt.outbox.max_disk_mb > 0,
            received_dropped=self._link.inbox.dropped,
            swaps=dict(self.swaps.results),
            model_refused=self.refused is not None,
        )

    def _make_page(self, seen: RecentFrames) -> "WebServer":
        from edgemeta.daemon.web.factory import make_page  # the import takes 60 ms, so only where the page is enabled

        telemetry = self._telemetry
        view = ServiceView(
            self.health,
            self.snapshot,
            lambda: telemetry.info(self.plan, self.refused),
            lambda: telemetry.last_stats,
            lambda: self._link.status,
            lambda: {name: camera.zones for name, camera in self.plan.config.cameras.items()},
        )
        return make_page(self.plan.config, view, seen, self._clock, self.collection, self._on_fatal)

    def _make_collection(self) -> "CollectionService | None":
        from edgemeta.daemon.collect.collection import make_collection, unavailable_because

        config = self.plan.config
        if unavailable_because(config) is not None:
            return None
        made = make_collection(config, lambda: self.plan.config, self._clock, self._on_fatal)
        collector = made.collector
        self._worker.frame_listeners.append(lambda captured, _: collector.offer(captured.camera, captured.frame))
        return made

    def _publish_status(self, camera: str, status: CameraStatus) -> None:
        self._telemetry.publish_status(self.plan, camera, status)

    def _works(self) -> bool:
        """Whether every camera delivers frames or has ended, the broker is connected, and no thread hangs."""
        return (
            not self._hanging
            and self._link.status.state is BrokerState.CONNECTED
            and not self._link.refuses_results
            and all(status is not None and status.is_ready for status in self._cameras.statuses.values())
        )

    @property
    def _hanging(self) -> tuple[str, ...]:
        problems = [problem for heartbeat in self._heartbeats if (problem := heartbeat.overdue) is not None]
        return (*problems, *self._cameras.hanging)

    def _publish_again(self) -> None:
        self._telemetry.publish_again(self.plan, self.refused, self._cameras.statuses)

    def _publish_change(self, camera: str | None) -> None:
        if camera is None:
            self._telemetry.publish_info(self.plan, self.refused)
        elif (status := self._cameras.status(camera)) is not None:
            self._publish_status(camera, status)

    def _publish_info(self) -> None:
        self._telemetry.publish_info(self.plan, self.refused)
        self._discovery.update(self.plan.config.homeassistant.enabled is True, self._device_view(self.plan))

    @staticmethod
    def _device_view(plan: Plan) -> DeviceView:
        tasks = {name: loaded.task for name, loaded in plan.loaded_models.items()}
        return view_of(plan.config, {name: plan.listed_labels_of(name) for name in plan.loaded_models}, tasks)
