"""What the messages of many devices say about each: pure, from topics and payloads.

The devices may run other versions than this program. So only the fields that are shown are read, and a message that
lacks one of them, or is no message at all, is counted and named, not an error.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from edgemeta.daemon.messages.records import OFFLINE, ONLINE
from edgemeta.daemon.messages.rollouts import RolloutCommand

ORDER = "cmd/rollout"
SEEN_BY = ("availability", "info", "stats", "swap")
"""Topics below `<base>/<device>` that tell of a device."""
CAMERA_TOPIC = "status"
"""The topic below `<base>/<device>/<camera>` that does."""
_NOT_SWAPPED = ("rolled_back", "refused", "fallback")


class _Fields(BaseModel):
    model_config = ConfigDict(extra="ignore", protected_namespaces=())


class _Model(_Fields):
    name: str
    sha256: str


class _Rollout(_Fields):
    rollout: str | None
    sha256: str | None
    state: str
    percentage: int | None = None
    reason: str | None = None
    keys: list[str] = []
    values: dict[str, JsonValue] = {}


class _Info(_Fields):
    version: str
    model: _Model
    cameras: list[str]
    overloaded: str | None = None
    model_refused: str | None = None
    rollout: _Rollout | None = None


class _Rate(_Fields):
    fps: float


class _Stats(_Fields):
    cameras: dict[str, _Rate]


class _Status(_Fields):
    status: str
    reason: str | None
    problem: bool


class _Swap(_Fields):
    result: str
    reason: str | None


def texts(values: Mapping[str, JsonValue]) -> list[str]:
    """Config values as `key=value`, for people."""
    return [f"{key}={json.dumps(each)}" for key, each in values.items()]


@dataclass
class Device:
    """What is known of one device; None is not known.

    order: what it is to use, of a rollout; None also where that must not be read.
    frames_per_s: sum over its cameras, of the last `stats`. seen: when its last message came that was not retained.
    unread: topics whose last message could not be read.
    """

    name: str
    online: bool | None = None
    info: _Info | None = None
    frames_per_s: float | None = None
    statuses: dict[str, _Status] = field(default_factory=dict)
    swap: _Swap | None = None
    order: RolloutCommand | None = None
    seen: datetime | None = None
    unread: set[str] = field(default_factory=set)

    @property
    def state(self) -> str:
        """`online`, `offline`, or `unknown` without `availability`."""
        return {None: "unknown", True: "online", False: "offline"}[self.online]

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras of its config; those with a status where `info` is not known."""
        return tuple(self.statuses if self.info is None else self.info.cameras)

    @property
    def working(self) -> int:
        """Cameras that have frames and no problem."""
        found = (self.statuses.get(camera) for camera in self.cameras)
        return sum(each is not None and each.status == "running" and not each.problem for each in found)

    def problems(self) -> Iterator[str]:
        """One sentence for each thing that is not as it should be."""
        if self.info is not None:
            if self.info.overloaded is not None:
                yield f"overloaded: {self.info.overloaded}"
            if self.info.model_refused is not None:
                yield f"model refused: {self.info.model_refused}"
            if self.info.rollout is not None and self.info.rollout.state == "failed":
                yield f"rollout {self.info.rollout.rollout} failed: {self.info.rollout.reason}"
        if self.swap is not None and self.swap.result in _NOT_SWAPPED:
            yield f"last swap {self.swap.result}: {self.swap.reason or 'without a reason'}"
        for camera in self.cameras:
            status = self.statuses.get(camera)
            if status is not None and status.problem:
                yield f"{camera}: {status.status}, {status.reason or 'without a reason'}"
        for topic in sorted(self.unread):
            yield f"{topic}: not a message of edgemeta that this version can read"

    @property
    def values(self) -> dict[str, JsonValue]:
        """Config values of rollouts that are in use."""
        return {} if self.info is None or self.info.rollout is None else self.info.rollout.values

    @property
    def wanted(self) -> str | None:
        """What a rollout wants of it and is not so yet; None without that."""
        said, order = None if self.info is None else self.info.rollout, self.order
        if order is None:
            return None
        sha256 = None if order.model is None else order.model.sha256
        model = "the config's model" if order.model is None else f"{order.model.name} {order.model.sha256[:8]}"
        text = ", ".join([f"rollout {order.rollout}: {model}", *texts(order.values)])
        if said is None:
            return f"{text}, not accepted (`swap.rollouts`)"
        if (said.rollout, said.sha256) != (order.rollout, sha256):
            return f"{text}, not received yet"
        if said.state in ("done", "failed"):
            return None
        share = "" if said.percentage is None else f" {said.percentage} %"
        return f"{text}, {said.state}{share}"

    def as_json(self) -> dict[str, object]:
        """All of it, for programs."""
        info = self.info
        return {
            "device": self.name,
            "state": self.state,
            "version": None if info is None else info.version,
            "model": None if info is None else info.model.name,
            "model_sha256": None if info is None else info.model.sha256,
            "cameras": {name: vars(each) for name in self.cameras if (each := self.statuses.get(name)) is not None},
            "frames_per_s": self.frames_per_s,
            "seen": None if self.seen is None else self.seen.isoformat(timespec="seconds"),
            "wanted": None if self.order is None else self.order.model_dump(mode="json", exclude={"transaction"}),
            "rollout": None if info is None or info.rollout is None else info.rollout.model_dump(),
            "problems": list(self.problems()),
        }


class Fleet:
    """The devices below one base topic, by their names."""

    def __init__(self, base: str) -> None:
        self.base = base
        self.devices: dict[str, Device] = {}

    @property
    def filters(self) -> list[str]:
        """The topic filters to subscribe to."""
        own = [f"{self.base}/+/{topic}" for topic in SEEN_BY]
        return [*own, f"{self.base}/+/+/{CAMERA_TOPIC}"]

    @property
    def orders(self) -> str:
        """The topic filter of what devices are to use."""
        return f"{self.base}/+/{ORDER}"

    def take(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """Read one message; an empty one says that there is no longer any."""
        name, _, rest = topic.removeprefix(f"{self.base}/").partition("/")
        device = self.devices.setdefault(name, Device(name))
        if not retained:
            device.seen = datetime.now(timezone.utc)
        device.unread.discard(rest)
        try:
            _read(device, rest, payload)
        except (ValidationError, UnicodeDecodeError):
            device.unread.add(rest)
        if device == Device(name):
            del self.devices[name]


def _read(device: Device, topic: str, payload: bytes) -> None:
    """Raises ValidationError, UnicodeDecodeError."""
    camera, _, kind = topic.rpartition("/")
    if topic == "availability":
        device.online = {ONLINE: True, OFFLINE: False}.get(payload.decode())
    elif topic == "info":
        device.info = _Info.model_validate_json(payload) if payload else None
    elif topic == ORDER:
        device.order = RolloutCommand.model_validate_json(payload) if payload else None
    elif topic == "swap":
        device.swap = _Swap.model_validate_json(payload) if payload else None
    elif topic == "stats":
        device.frames_per_s = round(sum(each.fps for each in _Stats.model_validate_json(payload).cameras.values()), 2)
    elif kind == CAMERA_TOPIC and payload:
        device.statuses[camera] = _Status.model_validate_json(payload)
    elif kind == CAMERA_TOPIC:
        device.statuses.pop(camera, None)
