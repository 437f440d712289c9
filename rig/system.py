"""The complete system under test: broker, network that can fail, subscriber at the broker, and the service."""

import json
import shutil
import signal
import sqlite3
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from rig.broker import KEEPING, Mosquitto
from rig.mqtt_proxy import MqttProxy
from rig.service_manager import ManagedService
from rig.subscriber import RecordingSubscriber
from rig.waiting import wait_until


class System:
    """All parts run after `start_service`. keys: the service's config, without device and broker.

    broker: lines of the broker's config.
    """

    def __init__(
        self,
        folder: Path,
        device: str,
        keys: Mapping[str, Any],
        watchdog: float | None = None,
        broker: Sequence[str] = ("allow_anonymous true", *KEEPING),
    ) -> None:
        self.folder = folder
        self.device = device
        self.watchdog = watchdog
        self.keys = dict(keys)
        self.broker = Mosquitto(folder, broker)
        self.broker.start()
        self.proxy = MqttProxy(self.broker.port)
        self.subscriber = RecordingSubscriber(self.broker.port, device)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        self.config = folder / "config.yaml"
        self.log = folder / "service.log"
        self.service: ManagedService | None = None
        self.killed: dict[str, datetime] = {}
        self.pending: set[tuple[str, int]] = set()

    @property
    def outbox(self) -> Path:
        """The service's outbox file."""
        return self.state / f"outbox-{self.device}.sqlite3"

    @property
    def running(self) -> ManagedService:
        """The service, which must have been started."""
        assert self.service is not None, "the service was not started"
        return self.service

    def write_config(self, **keys: Any) -> None:
        """Write the config with some keys changed."""
        config = (
            {
                "device": self.device,
                "data_folder": str(self.state),
                "stats": {"interval": 0.5},
                "log": {"level": "warning"},
            }
            | self.keys
            | keys
        )
        retry = {"initial_delay": 0.1, "max_delay": 0.3}
        config["mqtt"] = {
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "keepalive": 1,
            "ack_timeout": 1,
            "retry": retry,
            **config.get("mqtt", {}),
        }
        self.config.write_text(yaml.safe_dump(config))

    def start_service(self) -> ManagedService:
        """Start the service; its warnings go to a file."""
        if self.service is not None:
            self.service.close()
        self.service = ManagedService(self.config, self.log, self.watchdog)
        return self.service

    def restart_broker(self, number: int, empty: bool, pause: Callable[[], None]) -> None:
        """Stop the broker with a signal and start it again after a pause, with its saved state or empty.

        The network is restored only when the subscriber is back, so that it sees all messages that the broker gets.
        """
        self.broker.stop(number)
        self.proxy.reset()
        wait_until(lambda: not self.subscriber.subscribed.is_set(), "the subscriber to disconnect")
        pause()
        if empty:
            self.broker.delete_state()
        self.broker.start()
        wait_until(self.subscriber.subscribed.is_set, "the subscriber")
        self.subscriber.since.clear()
        self.proxy.restore(forget=True)

    def record_kill(self) -> None:
        """Record, after the service was killed, the time and the messages in its outbox file."""
        if boots := self.subscriber.audit.boots:
            self.killed[boots[-1]] = datetime.now(timezone.utc)
        name = self.outbox.name
        with tempfile.TemporaryDirectory() as copy:
            for part in self.state.glob(f"{name}*"):
                shutil.copy(part, copy)
            if not (Path(copy) / name).exists():
                return
            with closing(sqlite3.connect(Path(copy) / name)) as database:
                for (payload,) in database.execute("SELECT payload FROM messages"):
                    content = json.loads(payload)
                    self.pending.add((content["boot"], content["id"]))

    def settle(self) -> None:
        """Wait until the outbox has no late message."""
        before = self.subscriber.since["stats"]
        wait_until(
            lambda: self.subscriber.since["stats"] > before + 1 and self.subscriber.stats["outbox"]["waiting"] < 3,
            "an outbox without late messages",
        )

    def end(self) -> tuple[float, int]:
        """Wait until nothing waits, then stop the service; return its seconds to stop and its exit code."""
        self.settle()
        self.subscriber.since.clear()
        took, code = self.running.stop()
        wait_until(lambda: self.subscriber.since["availability"] > 0, "`offline`")
        return took, code

    @property
    def lost_from_outbox(self) -> int:
        """Number of messages that were in an outbox file at a kill and have not arrived."""
        return len(self.pending - self.subscriber.audit.messages.keys())

    def lost(self) -> dict[str, int]:
        """Count lost messages: by sequence numbers, by the outbox files at kills, and by the service's last counts."""
        audit = self.subscriber.audit
        results = audit.results(self.killed.keys())
        cameras = self.subscriber.stats["cameras"].values()
        return {
            "frames": sum(one.lost_frames for one in results.values()),
            "states": sum(one.lost_states for one in results.values()),
            "from_the_outbox": self.lost_from_outbox,
            "at_the_end": sum(
                abs(one["captured"] - one["published"] - sum(one["dropped"].values()) - one.get("withheld", 0))
                for one in cameras
            ),
        }

    def close(self) -> None:
        """Stop everything, also after an error."""
        self.subscriber.close()
        self.proxy.close()
        if self.service is not None:
            self.service.close()
        self.broker.stop(signal.SIGKILL)
