"""Links to a broker, each with an outbox of its own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.mqtt.link import MqttLink
from edgemeta.daemon.mqtt.outbox.delivery import Delivery
from edgemeta.daemon.mqtt.outbox.queue import Outbox
from edgemeta.daemon.mqtt.outbox.writer import OutboxWriter
from edgemeta.daemon.mqtt.subscriptions import Handler
from edgemeta.daemon.runtime.clock import Clock
from tests.daemon.conftest import DEADLINE


class Delivered:
    """Keeps the messages that the broker has acknowledged."""

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.refusals: list[Delivery] = []

    def acknowledged(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)

    def refused(self, delivery: Delivery) -> None:
        self.refusals.append(delivery)

    @property
    def payloads(self) -> list[bytes]:
        return [delivery.message.payload for delivery in self.deliveries if delivery.message.topic.endswith("numbers")]


@dataclass
class Links:
    """Makes links, each with an outbox of its own."""

    folder: Path
    links: list[tuple[MqttLink, OutboxWriter]] = field(default_factory=list)
    crashes: list[BaseException] = field(default_factory=list)

    def __call__(
        self,
        port: int,
        client_id: str = "link-under-test",
        topic: str = "edgemeta/test/availability",
        subscriptions: Mapping[str, Handler] = MappingProxyType({}),
        **keys: Any,
    ) -> MqttLink:
        config = MqttConfig.model_validate(
            {"host": "127.0.0.1", "port": port, "retry": {"initial_delay": 0.05, "max_delay": 0.2}} | keys
        )
        path = self.folder / f"outbox{len(self.links)}"
        outbox = Outbox(config.outbox, lambda topic, number: None)
        writer = OutboxWriter(outbox, config.outbox, path, "b" * 32, Clock(), self.crashes.append)
        delivered = Delivered()
        link = MqttLink(config, client_id, topic, outbox, delivered, self.crashes.append)
        link.delivered = delivered  # type: ignore[attr-defined]
        for topic_filter, handler in subscriptions.items():
            link.subscribe(topic_filter, handler)
        self.links.append((link, writer))
        writer.start()
        link.start(0)
        return link


@pytest.fixture
def make_link(tmp_path: Path) -> Iterator[Links]:
    links = Links(tmp_path)
    yield links
    for link, writer in links.links:
        link.close(1.0)
        writer.close(10.0)
        link._thread.join(DEADLINE)  # it ends soon after `close` has given up
        assert not link._thread.is_alive(), "the link's thread did not end"
    assert links.crashes == []
