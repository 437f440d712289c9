"""What a service consists of: built from a plan and connected with each other, not started."""

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from edgemeta import __version__
from edgemeta.daemon.capture.latest_frames import LatestFrames
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.inference.loaded_model import LoadedModel
from edgemeta.daemon.inference.object_names import ObjectNames
from edgemeta.daemon.inference.pipeline import Identity, Pipeline
from edgemeta.daemon.inference.readers.settings import settings_of
from edgemeta.daemon.inference.swap.coordinator import SwapCoordinator
from edgemeta.daemon.inference.worker import Worker
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.channels import AVAILABILITY, CROP, FRAME, MOTION, SNAPSHOT, Topics
from edgemeta.daemon.metrics.counters import DeliveryCounters, FrameCounters
from edgemeta.daemon.metrics.health import Health, broker_description
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from edgemeta.daemon.mqtt.homeassistant.discovery import Discovery
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.model_parts import ModelParts
from edgemeta.daemon.mqtt.outbox.files import file_of
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.mqtt.removed_cameras import RemovedCameras
from edgemeta.daemon.pictures.snapshots import Snapshots
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.runtime.periodic import Periodic
from edgemeta.daemon.service.cameras import Cameras
from edgemeta.daemon.service.conditions import Conditions
from edgemeta.daemon.service.frame_publisher import FramePublisher
from edgemeta.daemon.service.last_good_recorder import LastGoodRecorder
from edgemeta.daemon.service.model_fetcher import ModelFetcher
from edgemeta.daemon.service.plain_counts import PlainCounts
from edgemeta.daemon.service.plan import InUse, Plan
from edgemeta.daemon.service.rollouts import Rollouts
from edgemeta.daemon.service.telemetry import Telemetry
from edgemeta.daemon.web.recent_frames import RecentFrames
from edgemeta.daemon.web.state import ServiceView

if TYPE_CHECKING:
    from edgemeta.daemon.collect.collection import CollectionService
    from edgemeta.daemon.web.server import WebServer


class Parts:
    """The parts of one service. Any thread may ask for health and snapshot.

    collection: collecting and teaching; None where the config does not allow them. page: None where it is not enabled.
    on_fatal: called, from any thread, with an unexpected exception.
    """

    telemetry: Telemetry

    def __init__(self, plan: Plan, on_fatal: Callable[[BaseException], None]) -> None:
        config = plan.config
        names = list(config.cameras)
        self.in_use = InUse(plan, plan.refused)
        self.identity = Identity(config.device, uuid.uuid4().hex)
        self.clock = Clock()
        self.frames = LatestFrames(names)
        self.counters = {name: FrameCounters() for name in names}
        self.latencies = StageLatencies()
        self.topics = topics = Topics(config.mqtt.base_topic, config.device)
        by_topic = {topics.of(FRAME, name): counters for name, counters in self.counters.items()}
        of_pictures = {topics.of(kind, name): self.counters[name] for name in names for kind in (SNAPSHOT, CROP)}
        delivery_counters = DeliveryCounters(by_topic, self.latencies, of_pictures)
        self.outbox = Outbox(config.mqtt.outbox, delivery_counters.dropped)
        self.outbox_writer = OutboxWriter(
            self.outbox, config.mqtt.outbox, file_of(config), self.identity.boot, self.clock, on_fatal
        )
        client_id = config.mqtt.client_id or f"edgemeta-{config.device}"
        self.link = MqttLink(config.mqtt, client_id, topics.of(AVAILABILITY), self.outbox, delivery_counters, on_fatal)
        self.publisher = Publisher(self.link, topics, config.mqtt.qos)
        self.cameras = Cameras(
            *(self.in_use, self.frames, self.counters, lambda camera: self.link.refusal(topics.of(FRAME, camera))),
            lambda *status: self.telemetry.publish_status(*status),
            lambda *motion: self.telemetry.publish_motion(*motion),
            on_fatal,
        )
        self.conditions = Conditions(
            *(names, self.clock, self.cameras.load, lambda: self.cameras.statuses, self._works),
            *(lambda: self.telemetry.publish_again(self.cameras.statuses), self._publish_change, on_fatal),
        )
        self.fetcher = ModelFetcher(lambda: self.telemetry.publish_settings(), on_fatal)
        model_parts = ModelParts(topics)
        self.rollouts = Rollouts(self.in_use, model_parts, lambda: self.telemetry.publish_rollout(), on_fatal)
        if self.rollouts.state is not None:
            self.link.listeners.append(model_parts)
        self.telemetry = Telemetry(
            *(self.in_use, self.identity, self.clock, self.publisher, self.link, self.outbox),
            *(self.frames, self.counters, self.latencies, self.conditions, self.fetcher),
            self.rollouts,
        )
        self.counts = PlainCounts(self.in_use, self.publisher)
        self.removed = RemovedCameras(self.link, topics, names, self._retained_by_option)
        self.link.listeners.append(self.removed)
        self._models: object = None
        self.discovery = Discovery(self.link, config.homeassistant, plan.device_view())
        self.names = ObjectNames(plan.names)
        self.pipelines = {name: self.pipeline(name, loaded, config) for name, loaded in plan.loaded_models.items()}
        self.frame_publisher = FramePublisher(self.publisher, self.counters, self.latencies, self.counts)
        self.worker = Worker(self.frames, self.pipelines, self.counters, self.frame_publisher.publish, on_fatal)
        self.worker.batch = config.batch
        self.snapshots = Snapshots(
            lambda camera: self.in_use.plan.config.snapshots_of(camera),
            *(self.publisher, self.counters, on_fatal, self.cameras.pictures_of),
        )
        self.link.listeners.append(self.snapshots)
        self.worker.frame_listeners.append(self.snapshots.offer)
        self.swaps = SwapCoordinator(self.pipelines, self.worker, on_fatal)
        self.last_good = LastGoodRecorder(plan)
        self.stats_timer = Periodic("stats", config.stats.interval, self._publish_stats, on_fatal)
        self.collection: CollectionService | None = None
        self.page: WebServer | None = None
        if config.web.enabled:
            self._make_page(on_fatal)

    def pipeline(self, camera: str, loaded: LoadedModel, config: Config) -> Pipeline:
        """A pipeline of a camera, with a model and the settings of a config."""
        return Pipeline(self.identity, camera, loaded, settings_of(config, camera), self.clock, names=self.names)

    def announce(self) -> None:
        """Publish settings, and tell Home Assistant about the device, as the plan in use has them."""
        plan = self.in_use.plan
        self._models = self.telemetry.models.state(plan.config)
        self.telemetry.publish_settings()
        enabled = plan.config.homeassistant.enabled is True
        self.discovery.update(enabled, plan.device_view(self.telemetry.health.known))
        self.removed.read_again()

    def _retained_by_option(self) -> set[str]:
        """Topics on which options of the config retain messages now."""
        found = self.counts.topics(self.topics)
        for name, camera in self.in_use.plan.config.cameras.items():
            keys = self.in_use.plan.config.snapshots_of(name)
            options = {
                MOTION: camera.motion.publish,
                SNAPSHOT: keys.retain and keys.interval is not None,
                CROP: keys.retain and keys.events,
            }
            found |= {self.topics.of(channel, name) for channel, is_on in options.items() if is_on}
        return found

    def _publish_stats(self) -> None:
        """Publish the counters; also what models can be chosen, if the folder has changed since."""
        self.telemetry.publish_stats()
        if self.telemetry.models.state(self.in_use.plan.config) != self._models:
            self.announce()

    def health(self) -> Health:
        """A health snapshot of the service."""
        link, statuses = self.link, self.cameras.statuses.items()
        return Health(
            frames=sum(counters.processed for counters in self.counters.values()),
            cameras={name: status.description if status else "not started" for name, status in statuses},
            broker=broker_description(self.in_use.plan.config.mqtt, link.status, link.stats, self.outbox.stats),
            inbox=link.inbox.problem,
            page=self.page.problem if self.page is not None else None,
            swap=self.swaps.description,
            refused=self.in_use.refused,
            hanging_threads=self._hanging,
            overloaded=self.conditions.overloaded,
            ready=self.conditions.ready,
        )

    def snapshot(self) -> MetricsSnapshot:
        """A snapshot of all counters."""
        plan, link = self.in_use.plan, self.link
        return MetricsSnapshot(
            device=self.identity.device,
            version=__version__,
            config_sha256=plan.config_sha256,
            uptime=self.telemetry.uptime,
            clock_synchronized=self.clock.synchronized,
            hanging=len(self._hanging),
            overloaded=self.conditions.overloaded is not None,
            thread_delay=self.cameras.load.delay,
            cameras=self.cameras.snapshots(),
            stages=self.latencies.histograms(),
            broker=link.status.state,
            link=link.stats,
            outbox=self.outbox.stats,
            wants_disk=plan.config.mqtt.outbox.max_disk_mb > 0,
            received_dropped=link.inbox.dropped,
            swaps=dict(self.swaps.results),
            model_refused=self.in_use.refused is not None,
            health=self.telemetry.health.last,
        )

    def _make_page(self, on_fatal: Callable[[BaseException], None]) -> None:
        from edgemeta.daemon.collect.collection import make_collection, unavailable_because
        from edgemeta.daemon.web.factory import make_page  # these imports take 60 ms: only where the page is enabled

        config = self.in_use.plan.config
        recent = RecentFrames(list(config.cameras), config.web.show_frames)
        self.worker.frame_listeners.append(recent.add)
        if unavailable_because(config) is None:
            self.collection = made = make_collection(config, lambda: self.in_use.plan.config, self.clock, on_fatal)
            self.worker.frame_listeners.append(
                lambda captured, _: made.collector.offer(captured.camera, captured.frame)
            )
        view = ServiceView(
            self.health,
            self.snapshot,
            self.telemetry.info,
            lambda: self.telemetry.last_stats,
            lambda: self.link.status,
            lambda: self.in_use.plan.config.cameras,
            lambda: self.in_use.plan.config.device_name,
        )
        self.page = make_page(config, view, recent, self.clock, self.collection, on_fatal)

    def _works(self) -> bool:
        """Whether every camera delivers frames or has ended, the broker is connected, and no thread hangs."""
        return (
            not self._hanging
            and self.link.status.state is BrokerState.CONNECTED
            and not self.link.refuses_results
            and all(status is not None and status.is_ready for status in self.cameras.statuses.values())
        )

    @property
    def _hanging(self) -> tuple[str, ...]:
        heartbeats = (self.worker.heartbeat, *self.link.heartbeats)
        problems = [problem for heartbeat in heartbeats if (problem := heartbeat.overdue) is not None]
        return (*problems, *self.cameras.hanging)

    def _publish_change(self, camera: str | None) -> None:
        if camera is None:
            self.telemetry.publish_info()
        elif (status := self.cameras.status(camera)) is not None:
            self.telemetry.publish_status(camera, status)
