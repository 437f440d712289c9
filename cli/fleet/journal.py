"""The journal of a rollout: what was decided before the first order, and how far it is. Written before each step.

It is all that a command needs to go on after a kill, at any time, also where the broker has forgotten what it retained.
"""

import fcntl
import hashlib
import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from edgemeta.cli.fleet.devices import texts
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.messages.rollouts import RolloutCommand, WantedModel
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.errors import EdgemetaError


class Journal(BaseModel):
    """One rollout: of a model, or of values of config keys; unset: keys whose values are those of the config again.

    stages: the devices that each adds. before: the order that each device had, None for none. given: former models that
    this rollout has put at the broker, in parts, for devices that have lost them. stage: the one that runs, from 0.
    state: going; undoing: the devices are given their order before; done, undone: the end. reason: why it is undone.
    file: the model's path. most_failed: failed devices of a stage that do not halt it. timeout, settle: seconds.
    """

    model_config = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    id: str
    model: WantedModel | None = None
    values: dict[str, JsonValue] = {}
    unset: list[str] = []
    file: str = ""
    stages: list[list[str]] = []
    before: dict[str, RolloutCommand | None] = {}
    given: list[WantedModel] = []
    stage: int = 0
    state: Literal["going", "undoing", "done", "undone"] = "going"
    reason: str | None = None
    most_failed: int = 0
    timeout: float = 600.0
    settle: float = 5.0

    @property
    def ordered(self) -> list[str]:
        """The devices that have an order: of the stages so far."""
        return [name for stage in self.stages[: self.stage + 1] for name in stage]

    def order(self, device: str) -> RolloutCommand:
        """What a device is to use now."""
        before = self.before[device] or RolloutCommand(rollout=f"{self.id}-undone", device=device, model=None)
        if self.state not in ("going", "done"):
            return before
        values = {key: each for key, each in (before.values | self.values).items() if key not in self.unset}
        return RolloutCommand(rollout=self.id, device=device, model=self.model or before.model, values=values)

    def without(self, devices: Collection[str]) -> "Journal":
        """The same rollout of the other devices."""
        left = [[name for name in stage if name not in devices] for stage in self.stages]
        return self.model_copy(update={"stages": left})

    def is_of(self, other: "Journal") -> bool:
        """Whether another one is to bring the same."""
        return (self._sha256, self.values, self.unset) == (other._sha256, other.values, other.unset)

    @property
    def _sha256(self) -> str | None:
        return None if self.model is None else self.model.sha256

    @property
    def what(self) -> str:
        """What it brings, for people."""
        return self.model.name if self.model else ", ".join([*texts(self.values), *(f"no {key}" for key in self.unset)])


class JournalFile:
    """The file of one fleet: of a broker and a base topic; beside it the models that devices had from here."""

    def __init__(self, mqtt: MqttConfig, base: str) -> None:
        state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
        name = re.sub(r"[^A-Za-z0-9.]+", "-", f"{mqtt.host}-{mqtt.port}-{base}")
        self.path = state / "edgemeta" / "fleet" / f"{name}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let no other command use it meanwhile. Raises EdgemetaError."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("a")
        except OSError as error:
            raise EdgemetaError(f"{self.path.parent}: cannot be written: {error.strerror}") from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise EdgemetaError(f"{self.path}: another command carries out this rollout: end it first") from None
            yield

    def read(self) -> Journal | None:
        """Return the last rollout; None before the first. Raises EdgemetaError."""
        try:
            return Journal.model_validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise EdgemetaError(f"{self.path}: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            raise EdgemetaError(
                f"{self.path}: is no journal of a rollout ({error.error_count()} mistakes): delete it to begin anew"
            ) from None

    def write(self, journal: Journal, content: bytes | None = None) -> None:
        """Keep how far it is. content: of its model, when it begins. Raises EdgemetaError."""
        try:
            if content is not None:
                self._keep(journal, content)
            write_atomically(self.path, journal.model_dump_json(indent=1).encode())
        except OSError as error:
            raise EdgemetaError(f"{self.path}: cannot be written: {error.strerror}") from None

    def _keep(self, journal: Journal, content: bytes) -> None:
        """Keep the model, and delete those that none of its devices can go back to. Raises OSError."""
        self._models.mkdir(exist_ok=True)
        own = hashlib.sha256(content).hexdigest()
        write_atomically(self._models / own, content)
        needed = {own, *(each.model.sha256 for each in journal.before.values() if each and each.model)}
        for file in self._models.iterdir():
            if file.name not in needed:
                file.unlink()

    def content_of(self, model: WantedModel) -> bytes | None:
        """The bytes of a model; None where it is not kept. Raises EdgemetaError."""
        file = self._models / model.sha256
        try:
            return file.read_bytes() if file.exists() else None
        except OSError as error:
            raise EdgemetaError(f"{file}: cannot be read: {error.strerror}") from None

    @property
    def _models(self) -> Path:
        return self.path.with_suffix("")
