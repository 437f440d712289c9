"""Former names of config keys. A config that uses one gets an error that names the new key, or is migrated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What a version renamed: former dotted key to its new one; `*` is a camera's name. removed: what did nothing."""

    version: str
    renamed: Mapping[str, str]
    removed: frozenset[str] = frozenset()

    def new_of(self, path: Sequence[str]) -> Iterator[str | None]:
        """The new dotted name of a former key, or None of a removed one; nothing for any other key."""
        steps = list(path)
        camera = steps[1] if steps[0] == "cameras" and len(steps) > 2 else None
        if camera is not None:
            steps[1] = "*"
        name = ".".join(steps)
        if name in self.renamed:
            yield self.renamed[name] if camera is None else self.renamed[name].replace("*", camera, 1)
        elif name in self.removed:
            yield None


_NAMES_OF_1_0 = {
    "swap.watch": "watch_files",
    "swap.shadow": "swap.shadow_frames",
    "swap.agree": "swap.min_agreement",
    "swap.slowdown": "swap.max_slowdown",
    "swap.keep": "swap.trial_frames",
    "swap.fallback": "swap.fallback_at_start",
    "swap.folder": "swap.model_folder",
    "trust.keys": "trust.public_key_files",
    "cameras.*.timeout": "cameras.*.frame_timeout",
    "cameras.*.frozen": "cameras.*.frozen_after",
    "cameras.*.black": "cameras.*.black_after",
    "cameras.*.motion.level": "cameras.*.motion.threshold",
    "cameras.*.motion.share": "cameras.*.motion.min_area",
    "cameras.*.motion.every": "cameras.*.motion.max_interval",
    "cameras.*.retry.first": "cameras.*.retry.initial_delay",
    "cameras.*.retry.cap": "cameras.*.retry.max_delay",
    "cameras.*.state.agree": "cameras.*.state.min_frames",
    "cameras.*.state.window": "cameras.*.state.window_frames",
    "cameras.*.state.enter": "cameras.*.state.enter_score",
    "cameras.*.state.leave": "cameras.*.state.leave_score",
    "cameras.*.state.hold": "cameras.*.state.min_duration",
    "cameras.*.publish.heartbeat": "cameras.*.publish.heartbeat_interval",
    "labels": "label_map",
    "state.agree": "state.min_frames",
    "state.window": "state.window_frames",
    "state.enter": "state.enter_score",
    "state.leave": "state.leave_score",
    "state.hold": "state.min_duration",
    "publish.heartbeat": "publish.heartbeat_interval",
    "mqtt.tls.ca": "mqtt.tls.ca_file",
    "mqtt.tls.certificate": "mqtt.tls.cert_file",
    "mqtt.tls.key": "mqtt.tls.key_file",
    "mqtt.base": "mqtt.base_topic",
    "mqtt.expiry": "mqtt.message_expiry_interval",
    "mqtt.command_rate": "mqtt.max_commands_per_second",
    "mqtt.outbox.folder": "data_folder",
    "mqtt.outbox.size": "mqtt.outbox.max_disk_mb",
    "mqtt.outbox.memory": "mqtt.outbox.max_memory_mb",
    "mqtt.outbox.age": "mqtt.outbox.max_age",
    "mqtt.outbox.pace": "mqtt.outbox.max_replayed_per_second",
    "mqtt.retry.first": "mqtt.retry.initial_delay",
    "mqtt.retry.cap": "mqtt.retry.max_delay",
    "homeassistant.prefix": "homeassistant.discovery_prefix",
    "homeassistant.status": "homeassistant.status_topic",
    "web.pictures": "web.show_frames",
    "web.picture_rate": "web.max_fps",
    "stats.period": "stats.interval",
}

STEPS = (Step("1.0", _NAMES_OF_1_0, removed=frozenset({"mqtt.queue"})),)
"""All steps, the oldest first."""


def new_name(path: Sequence[str | int]) -> str | None:
    """Return the new dotted name of a former key, None for any other key."""
    names = (new for step in STEPS for new in step.new_of([str(each) for each in path]))
    return next(names, None)
