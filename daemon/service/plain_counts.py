"""Counts as plain retained numbers on topics of their own, for subscribers that read no JSON."""

from dataclasses import dataclass, field

from edgemeta.daemon.messages.channels import COUNT, Topics
from edgemeta.daemon.messages.records import StateMessage
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.service.plan import InUse, Plan
from edgemeta.model.tasks import TaskName

COUNTED: frozenset[TaskName] = frozenset({"detection", "multi-label", "segmentation"})
"""Tasks whose states have counts."""


@dataclass(eq=False)
class PlainCounts:
    """Publishes each number when it changes. The worker's thread calls.

    A label has a topic from the start if it has an entity of its own in Home Assistant, others once they were present.
    """

    _in_use: InUse
    _publisher: Publisher
    _sent: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """Number by camera, zone (empty: the whole picture) and label."""

    def publish(self, camera: str, state: StateMessage) -> None:
        """Publish the counts of a state that have changed, if the config asks for them."""
        if state.counts is None:
            return
        known = _known(self._in_use.plan, camera)
        self._sent = {key: number for key, number in self._sent.items() if key[0] != camera or key[1] in known}
        for zone, counts in {"": state.counts, **(state.zones or {})}.items():
            before = [label for of, place, label in self._sent if (of, place) == (camera, zone)]
            for label in dict.fromkeys((*known[zone], *before, *counts)) if zone in known else ():
                self._publish(camera, zone, label, counts.get(label, 0))

    def topics(self, topics: Topics) -> set[str]:
        """Return the topics that have a number, or get one with the next state. Any thread may call."""
        plan, sent = self._in_use.plan, self._sent
        known = {camera: _known(plan, camera) for camera in plan.config.cameras}
        keys = {
            *((camera, zone, label) for camera, zones in known.items() for zone in zones for label in zones[zone]),
            *((camera, zone, label) for camera, zone, label in list(sent) if zone in known[camera]),
        }
        return {topics.of(COUNT, camera, zone=zone, label=label) for camera, zone, label in keys}

    def _publish(self, camera: str, zone: str, label: str, number: int) -> None:
        if self._sent.get((camera, zone, label)) != number:
            self._sent[camera, zone, label] = number
            self._publisher.send(self._publisher.number(COUNT, number, camera, label, zone))


def _known(plan: Plan, camera: str) -> dict[str, list[str]]:
    """Return the labels of a camera that always have a number, by zone (empty: the whole picture); none without any."""
    config = plan.config.cameras[camera]
    if not (config.publish or plan.config.publish).plain_counts:
        return {}
    if plan.loaded_models[camera].task not in COUNTED:
        return {}
    listed = list(plan.listed_labels_of(camera))
    zones = {
        zone: [label for label in listed if each.labels is None or label in each.labels]
        for zone, each in config.zones.items()
    }
    return {"": listed, **zones}
