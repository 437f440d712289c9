"""A health snapshot of the service."""

from dataclasses import dataclass

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.stats import BrokerStats, OutboxStats
from edgemeta.daemon.mqtt.state import LinkStatus


@dataclass(frozen=True)
class Health:
    """What is reported to the service manager; all texts are descriptions.

    frames: frames classified since the start. cameras: status of each camera. broker: status of the broker and the
    outbox. hanging_threads: one for each; while there are any, the watchdog is not fed. overloaded: what was
    measured while the service gets too little of the processor; None while it does not. inbox: the flooded topics; None
    if there are none. page: why the live page is not served; None if it is, or is not configured. swap: progress of a
    model swap; None if there is none. refused: why a model named by the config is not in use; None if all are. ready:
    whether every camera delivers frames or has ended, the broker is connected and accepts their messages, and no thread
    hangs, or until a few seconds ago.
    """

    frames: int
    cameras: dict[str, str]
    broker: str
    hanging_threads: tuple[str, ...]
    inbox: str | None = None
    page: str | None = None
    swap: str | None = None
    refused: str | None = None
    overloaded: str | None = None
    ready: bool = False


def broker_description(config: MqttConfig, link: LinkStatus, stats: BrokerStats, outbox: OutboxStats) -> str:
    """Return a description of broker and outbox, with the reason if something is wrong."""
    address = f"{config.host}:{config.port}"
    reason = (link.reason or "connecting").removeprefix(f"broker {address} ")
    connection = {
        BrokerState.CONNECTED: "connected",
        BrokerState.SLOW: f"connected, {reason}",
        BrokerState.UNACKNOWLEDGED: reason,
    }
    waiting = f", {outbox.waiting} messages wait" if outbox.waiting and link.state is not BrokerState.CONNECTED else ""
    memory = f", outbox in memory: {outbox.reason}" if outbox.place == "memory" else ""
    others = "".join(f", {text}" for text in (stats.refuses, stats.missing) if text)
    return f"{address} {connection.get(link.state, f'not connected: {reason}')}{others}{waiting}{memory}"
