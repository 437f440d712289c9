"""A model of Home Assistant that listens to the test's broker."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.daemon.mqtt.homeassistant.assistant import Assistant, Entity

DEADLINE = 60.0


class Listening:
    """Home Assistant at a broker: what a subscriber to everything received, heard in order."""

    def __init__(self, subscriber: Any) -> None:
        self.subscriber = subscriber
        self.assistant = Assistant()
        self._heard = 0

    def catch_up(self) -> Assistant:
        """Hear what came since, and give the model."""
        received = list(self.subscriber.received)
        for message in received[self._heard :]:
            self.assistant.hear(message.topic, message.payload)
        self._heard = len(received)
        return self.assistant

    def wait(self, condition: Callable[[Assistant], Any], what: str) -> Any:
        """Wait until something is true of it, and give that."""
        deadline = time.monotonic() + DEADLINE
        while not (found := condition(self.catch_up())):
            assert time.monotonic() < deadline, f"waited {DEADLINE:g} s for {what}"
            time.sleep(0.01)
        return found

    def entity(self, component: str) -> Entity:
        """Wait until a component's entity is available and has a value."""

        def ready(assistant: Assistant) -> Entity | None:
            known = [entity for (_, key), entity in assistant.entities.items() if key == component]
            return known[0] if known and known[0].is_available and known[0].value is not None else None

        found = self.wait(ready, component)
        assert isinstance(found, Entity)
        return found


@pytest.fixture
def listen(make_subscriber: Any) -> Callable[[int], Listening]:
    """Starts a Home Assistant at a broker's port; it gets what is retained first, as the real one."""
    return lambda port: Listening(make_subscriber(port))
