"""The rig as a whole: broker, network that can be cut, subscriber beside the broker, and the service of a device."""

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
from rig.broker_network import BrokerNetwork
from rig.manager import Managed
from rig.patience import until
from rig.witness import Witness


class Rig:
    """All parts run after `start_service`. `keys` are the service's config, without device and broker.

    broker: lines of the broker's own config.
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
        self.network = BrokerNetwork(self.broker.port)
        self.witness = Witness(self.broker.port, device)
        self.state = folder / "state"
        self.state.mkdir(exist_ok=True)
        self.config = folder / "config.yaml"
        self.log = folder / "service.log"
        self.service: Managed | None = None
        self.killed: dict[str, datetime] = {}
        self.owed: set[tuple[str, int]] = set()

    @property
    def running(self) -> Managed:
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
            "port": self.network.port,
            "keepalive": 1,
            "ack_timeout": 1,
            "retry": retry,
            **config.get("mqtt", {}),
        }
        self.config.write_text(yaml.safe_dump(config))

    def start_service(self) -> Managed:
        """Start the service; its warnings go to a file."""
        if self.service is not None:
            self.service.close()
        self.service = Managed(self.config, self.log, self.watchdog)
        return self.service

    def restart_broker(self, number: int, empty: bool, pause: Callable[[], None]) -> None:
        """End the broker by a signal; after a pause it is there again, with what it saved or empty.

        The network is mended only when the subscriber is back, so that it sees all that the broker takes.
        """
        self.broker.stop(number)
        self.network.reset()
        until(lambda: not self.witness.subscribed.is_set(), "the subscriber to notice")
        pause()
        if empty:
            self.broker.forget()
        self.broker.start()
        until(self.witness.subscribed.is_set, "the subscriber")
        self.witness.since.clear()
        self.network.mend(forget=True)

    def lost_service(self) -> None:
        """Note, once the service has ended without warning, when, and which messages its outbox file holds."""
        if boots := self.witness.ledger.boots:
            self.killed[boots[-1]] = datetime.now(timezone.utc)
        name = f"outbox-{self.device}.sqlite3"
        with tempfile.TemporaryDirectory() as copy:
            for part in self.state.glob(f"{name}*"):
                shutil.copy(part, copy)
            if not (Path(copy) / name).exists():
                return
            with closing(sqlite3.connect(Path(copy) / name)) as database:
                for (payload,) in database.execute("SELECT payload FROM messages"):
                    content = json.loads(payload)
                    self.owed.add((content["boot"], content["id"]))

    def settle(self) -> None:
        """Wait until no late message waits any more."""
        begun = self.witness.since["stats"]
        until(
            lambda: self.witness.since["stats"] > begun + 1 and self.witness.stats["outbox"]["waiting"] < 3,
            "an outbox without late messages",
        )

    def end(self) -> tuple[float, int]:
        """Wait until nothing waits, then stop the service; return its seconds to stop and its exit code."""
        self.settle()
        self.witness.since.clear()
        took, code = self.running.stop()
        until(lambda: self.witness.since["availability"] > 0, "`offline`")
        return took, code

    @property
    def lost_from_outbox(self) -> int:
        """Number of messages that were in an outbox file when the service ended and have not arrived."""
        return len(self.owed - self.witness.ledger.messages.keys())

    def lost(self) -> dict[str, int]:
        """Count what is missing: by sequence numbers, by what outbox files held, and by the service's last counts."""
        ledger = self.witness.ledger
        verdicts = ledger.verdicts(self.killed.keys())
        cameras = self.witness.stats["cameras"].values()
        return {
            "frames": sum(one.lost_frames for one in verdicts.values()),
            "states": sum(one.lost_states for one in verdicts.values()),
            "from_the_outbox": self.lost_from_outbox,
            "at_the_end": sum(
                abs(one["captured"] - one["published"] - sum(one["dropped"].values()) - one.get("withheld", 0))
                for one in cameras
            ),
        }

    def close(self) -> None:
        """End everything, also after a fault."""
        self.witness.close()
        self.network.close()
        if self.service is not None:
            self.service.close()
        self.broker.stop(signal.SIGKILL)
