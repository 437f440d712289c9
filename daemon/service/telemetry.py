"""Messages about the service itself: info, stats, camera status, results of swaps."""

import itertools
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgemeta import __version__
from edgemeta.daemon.capture.camera import CameraStatus
from edgemeta.daemon.capture.latest_frames import LatestFrames
from edgemeta.daemon.config.data_folder import data_folder
from edgemeta.daemon.inference.pipeline import Identity
from edgemeta.daemon.inference.swap.replacement import Trigger
from edgemeta.daemon.inference.swap.report import SwapReport
from edgemeta.daemon.messages.channels import INFO, MOTION, SETTINGS, STATS, STATUS, SWAP
from edgemeta.daemon.messages.records import MotionMessage, StatusMessage
from edgemeta.daemon.messages.service import InfoMessage, ModelUpdate, SettingsMessage
from edgemeta.daemon.messages.stats import StatsMessage
from edgemeta.daemon.messages.swaps import SwapMessage, SwapResult
from edgemeta.daemon.metrics.counters import FrameCounters, camera_stats
from edgemeta.daemon.metrics.device_health import HealthReader
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.service.conditions import Conditions
from edgemeta.daemon.service.model_fetcher import ModelFetcher
from edgemeta.daemon.service.model_folder import Available, ModelFolder, chosen_name
from edgemeta.daemon.service.plan import InUse
from edgemeta.daemon.service.rollouts import Rollouts
from edgemeta.daemon.service.settings import names_of, score_of


@dataclass(eq=False)
class Telemetry:
    """Makes and publishes the messages about one service. Any thread may call."""

    _in_use: InUse
    _identity: Identity
    _clock: Clock
    _publisher: Publisher
    _link: MqttLink
    _outbox: Outbox
    _frames: LatestFrames
    _counters: Mapping[str, FrameCounters]
    _latencies: StageLatencies
    _conditions: Conditions
    _fetcher: ModelFetcher
    _rollouts: Rollouts

    def __post_init__(self) -> None:
        self._who: dict[str, Any] = asdict(self._identity)
        self._started_ns = self._period_began_ns = time.monotonic_ns()
        self.last_stats: StatsMessage | None = None
        self._swap: SwapMessage | None = None
        self._swap_ended_ns = 0
        self._motions: dict[str, tuple[bool, int]] = {}
        self.models = ModelFolder()
        self.health = HealthReader(data_folder(self._in_use.plan.config.data_folder))

    @property
    def uptime(self) -> float:
        """Seconds since the service started, by the monotonic clock."""
        return (time.monotonic_ns() - self._started_ns) / NS

    @property
    def last_swap(self) -> SwapResult | None:
        """The result in the retained swap message; None before the first."""
        return None if self._swap is None else self._swap.result

    def publish_again(self, statuses: Mapping[str, CameraStatus | None]) -> None:
        """Publish with their new times what the broker retains, because the clock was set; `state` comes with a frame.

        statuses: of each camera; None before its start.
        """
        self.publish_info()
        for camera, status in statuses.items():
            if status is not None:
                self.publish_status(camera, status)
        for camera, motion in list(self._motions.items()):
            if self._in_use.plan.config.cameras[camera].motion.publish:
                self.publish_motion(camera, *motion)
        if self._swap is not None:
            self._publish_swap(self._swap, self._swap_ended_ns)

    def publish_info(self) -> None:
        """Publish what runs, and why a model that the config names is not in use."""
        self._publisher.send(self._publisher.encode(INFO, self.info()))

    def publish_rollout(self) -> None:
        """Publish how the device gets on with the order of a rollout."""
        self.publish_info()
        self.publish_settings()

    def publish_stats(self) -> None:
        """Publish the counters and latencies; without a connection those of this period are not sent."""
        self.last_stats = self._stats()
        outgoing = self._publisher.encode(STATS, self.last_stats)
        if self._publisher.connected:
            self._publisher.send(outgoing)

    def publish_status(self, camera: str, status: CameraStatus) -> None:
        """Publish the status of a camera."""
        message = StatusMessage(
            **self._who,
            camera=camera,
            status=status.state,
            reason=status.reason,
            source=str(self._in_use.plan.config.cameras[camera].address),
            since=self._clock.utc(status.since_ns),
            clock_synchronized=self._clock.synchronized,
            failures=status.failures,
            problem=self._conditions.has_problem(camera),
            damaged=status.damaged,
        )
        self._publisher.send(self._publisher.encode(STATUS, message, camera))

    def publish_motion(self, camera: str, motion: bool, since_ns: int) -> None:
        """Publish whether there is motion before a camera; since_ns: monotonic."""
        self._motions[camera] = motion, since_ns
        message = MotionMessage(
            **self._who,
            camera=camera,
            motion=motion,
            since=self._clock.utc(since_ns),
            clock_synchronized=self._clock.synchronized,
        )
        self._publisher.send(self._publisher.encode(MOTION, message, camera))

    def publish_settings(self) -> None:
        """Publish the settings of each camera that commands can change."""
        plan = self._in_use.plan
        for camera, config in plan.config.cameras.items():
            loaded = plan.loaded_models[camera]
            name = chosen_name(plan.config.model_of(camera))
            newest = self.models.available(plan.config, plan.config.model_of(camera), loaded)
            order = self._rollouts.installable if config.model is None else None
            if order is not None and order.model is not None:
                newest = Available(order.model.sha256, is_newer=order.model.sha256 != loaded.identity.sha256)
            message = SettingsMessage(
                **self._who,
                camera=camera,
                enabled=config.enabled,
                max_fps=config.max_fps or 0,
                score=score_of(plan.config, camera, loaded.model),
                labels=(config.objects or plan.config.objects).labels if loaded.task == "detection" else None,
                model=name,
                model_sha256=loaded.identity.sha256,
                available_sha256=newest.sha256,
                update=self._update(name, newest) if order is None else self._rollouts.as_update,
                by_command=names_of(plan.settings[camera]) if camera in plan.settings else [],
            )
            self._publisher.send(self._publisher.encode(SETTINGS, message, camera))

    def _update(self, name: str, newest: Available) -> ModelUpdate:
        network, running = newest.network, self._fetcher.running
        is_running = running is not None and running.name == name
        return ModelUpdate(
            summary=None if network is None else network.summary,
            url=None if network is None else network.page,
            in_progress=is_running,
            percentage=running.percentage if running is not None and is_running else None,
            failed=self._fetcher.failed.get(name),
        )

    def publish_swap(self, trigger: Trigger, report: SwapReport) -> None:
        """Publish the result of a swap."""
        ended_ns = time.monotonic_ns()
        message = SwapMessage(
            **self._who,
            time=self._clock.utc(ended_ns),
            clock_synchronized=self._clock.synchronized,
            trigger=trigger,
            result=report.result,
            reason=report.reason,
            models=report.models,
            took_us=report.took_us,
        )
        self._publish_swap(message, ended_ns)

    def _publish_swap(self, message: SwapMessage, ended_ns: int) -> None:
        times = {"time": self._clock.utc(ended_ns), "clock_synchronized": self._clock.synchronized}
        self._swap, self._swap_ended_ns = message.model_copy(update=times), ended_ns
        self._publisher.send(self._publisher.encode(SWAP, self._swap))

    def publish_without_swap(self, trigger: Trigger, result: SwapResult, reason: str | None = None) -> None:
        """Publish a result without a swap: a model that cannot be used, or that the config's models are in use."""
        report = SwapReport([])
        report.result, report.reason = result, reason
        self.publish_swap(trigger, report)

    def info(self) -> InfoMessage:
        """Return the message that says what runs."""
        plan = self._in_use.plan
        first, *_ = plan.loaded_models.values()
        names = (plan.labels_of(camera) for camera in plan.loaded_models)
        return InfoMessage(
            **self._who,
            version=__version__,
            started=self._clock.utc(self._started_ns),
            clock_synchronized=self._clock.synchronized,
            model=first.identity,
            task=first.task,
            labels=list(dict.fromkeys(itertools.chain.from_iterable(names))),
            backend=first.backend,
            config_sha256=plan.config_sha256,
            cameras=list(plan.config.cameras),
            names={name: camera.name or name for name, camera in plan.config.cameras.items()},
            models={name: loaded.identity for name, loaded in plan.loaded_models.items()},
            tasks={name: loaded.task for name, loaded in plan.loaded_models.items()},
            overloaded=self._conditions.overloaded,
            model_refused=self._in_use.refused,
            rollout=self._rollouts.state,
        )

    def _stats(self) -> StatsMessage:
        now = time.monotonic_ns()
        period, self._period_began_ns = now - self._period_began_ns, now
        for counters in self._counters.values():
            counters.measure_rate(period / NS)
        return StatsMessage(
            **self._who,
            time=self._clock.utc(now),
            clock_synchronized=self._clock.synchronized,
            uptime_s=round((now - self._started_ns) / NS, 3),
            period_s=round(period / NS, 3),
            cameras={name: camera_stats(self._counters[name], self._frames, name) for name in self._counters},
            latency_us=self._latencies.drain(),
            broker=self._link.stats,
            outbox=self._outbox.stats,
            health=self.health.read(),
        )
