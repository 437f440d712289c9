"""How the service fares at one moment, in numbers and words."""

from dataclasses import dataclass

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import OutboxStats
from edgemeta.daemon.mqtt.state import LinkStatus


@dataclass(frozen=True)
class Health:
    """What the service manager is told of.

    frames: frames classified since the start. cameras: where each stands, in words. broker: the same of the broker.
    troubles: threads that hang, in words; while there are any, the watchdog is not fed.
    inbox: description of the flooded topics; None where none is flooded.
    page: why the live page is not served, in words; None where it is, or is not wanted.
    swap: how far a swap of models is, in words; None where none is in flight.
    refused: reason why a model named by the config is not in use; None where all of them are.
    """

    frames: int
    cameras: dict[str, str]
    broker: str
    hanging_threads: tuple[str, ...]
    inbox: str | None = None
    page: str | None = None
    swap: str | None = None
    refused: str | None = None


def broker_description(config: MqttConfig, link: LinkStatus, outbox: OutboxStats) -> str:
    """Return how broker and outbox stand, the reason where something is wrong."""
    place = f"{config.host}:{config.port}"
    reason = (link.reason or "connecting").removeprefix(f"broker {place} ")
    connection = {BrokerState.CONNECTED: "connected", BrokerState.UNACKNOWLEDGED: reason}
    waiting = f", {outbox.waiting} messages wait" if outbox.waiting and link.state is not BrokerState.CONNECTED else ""
    memory = f", outbox in memory: {outbox.reason}" if outbox.place == "memory" else ""
    return f"{place} {connection.get(link.state, f'not connected: {reason}')}{waiting}{memory}"
