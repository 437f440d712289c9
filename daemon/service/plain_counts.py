"""Counts as plain retained numbers on topics of their own, for subscribers that read no JSON."""

from dataclasses import dataclass, field

from edgemeta.daemon.messages.channels import COUNT
from edgemeta.daemon.messages.records import StateMessage
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.service.plan import InUse


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
        plan = self._in_use.plan
        config = plan.config.cameras[camera]
        if state.counts is None or not (config.publish or plan.config.publish).plain_counts:
            return
        listed = plan.listed_labels_of(camera)
        for zone, counts in {"": state.counts, **(state.zones or {})}.items():
            labels = config.zones[zone].labels if zone in config.zones else None
            known = [label for label in listed if labels is None or label in labels]
            before = [label for of, place, label in self._sent if (of, place) == (camera, zone)]
            for label in dict.fromkeys((*known, *before, *counts)):
                self._publish(camera, zone, label, counts.get(label, 0))

    def _publish(self, camera: str, zone: str, label: str, number: int) -> None:
        if self._sent.get((camera, zone, label)) != number:
            self._sent[camera, zone, label] = number
            self._publisher.send(self._publisher.number(COUNT, number, camera, label, zone))
