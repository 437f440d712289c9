"""The config as records: every key, its type, bounds, default and meaning.

These records are the one definition: the validator, docs/configuration.md and its test read them. Keys that are not
here are errors, and so are values of another type ("8" is not 8).
"""

import hashlib
import json
import re
import socket
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator

from edgemeta.daemon.sources.registry import address_from, without_password

RESERVED = frozenset({"availability", "cmd", "health", "info", "resp", "stats"})
"""Names on the level of cameras that other topics of a device use."""


def _name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
        raise ValueError("1 to 64 letters, digits, '-' or '_'")
    return value


def _camera_name(value: str) -> str:
    if value in RESERVED:
        raise ValueError(f"a camera name other than {', '.join(sorted(RESERVED))}")
    return _name(value)


def _base_topic(value: str) -> str:
    levels = value.split("/")
    if value.startswith("$") or not all(re.fullmatch(r"[^+#/\x00-\x1f]+", level) for level in levels):
        raise ValueError("topic levels joined by '/', without '+', '#' or control characters, not starting with '$'")
    return value


def _number_as_text(value: object) -> object:
    return str(value) if type(value) is int and value >= 0 else value


def _option(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("text, a number, true or false")
    return value


def _rate(value: float) -> float:
    if value != 0 and not SLOWEST <= value <= FASTEST:
        raise ValueError(f"0, or {SLOWEST:g} to {FASTEST:g}")
    return value


def hostname() -> str:
    """Return the first label of the machine's name, with characters a topic level cannot hold turned into '-'."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:64] or "edgemeta"


SLOWEST, FASTEST = 0.001, 1000.0
"""Frames per second."""

Name = Annotated[str, AfterValidator(_name)]
CameraName = Annotated[str, AfterValidator(_camera_name)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
PositiveShare = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


class Section(BaseModel):
    """One mapping of the config: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


AnySection = TypeVar("AnySection", bound=Section)


class RetryConfig(Section):
    """How long to wait before trying again: doubling from `first` to `cap`, each wait shortened by up to a half."""

    first: Seconds = Field(default=0.25, description="Longest wait after the first failure, in seconds.")
    cap: Seconds = Field(default=0.5, description="Longest wait of all, in seconds.")

    @model_validator(mode="after")
    def _ordered(self) -> "RetryConfig":
        if self.first > self.cap:
            raise ValueError(f"`first` ({self.first:g}) no greater than `cap` ({self.cap:g})")
        return self


class BrokerRetryConfig(RetryConfig):
    """The same for the broker, which many devices may want at once."""

    first: Seconds = Field(default=1.0, description="Longest wait after the first failure, in seconds.")
    cap: Seconds = Field(default=60.0, description="Longest wait of all, in seconds.")


class RegionConfig(Section):
    """A part of a camera's picture, in shares of its width and height."""

    left: Share = Field(default=0.0, description="Where it begins, as a share of the picture's width.")
    top: Share = Field(default=0.0, description="Where it begins, as a share of the picture's height.")
    width: PositiveShare = Field(default=1.0, description="How wide it is, as a share of the picture's width.")
    height: PositiveShare = Field(default=1.0, description="How high it is, as a share of the picture's height.")

    @model_validator(mode="after")
    def _inside(self) -> "RegionConfig":
        for begin, extent in (("left", "width"), ("top", "height")):
            first, size = getattr(self, begin), getattr(self, extent)
            if first + size > 1 + 1e-9:
                raise ValueError(f"`{begin}` ({first:g}) and `{extent}` ({size:g}) together at most 1")
        return self


class MotionConfig(Section):
    """When a picture counts as changed: enough of its pixels differ enough from the last one that passed."""

    enabled: bool = Field(default=False, description="Classify only pictures that changed.")
    level: int = Field(default=25, ge=1, le=255, description="Change of a colour, of 255, that is more than noise.")
    share: PositiveShare = Field(default=0.005, description="Share of the pixels that must have changed so much.")
    every: Seconds = Field(default=10.0, description="Seconds after which a picture passes even without motion.")


class CameraConfig(Section):
    """One camera."""

    source: Annotated[str, BeforeValidator(_number_as_text), Field(min_length=1)] = Field(
        description="Where frames come from: `synthetic://`, an image, a folder of images, a video file, a V4L2 device "
        "(`0`, `/dev/video0` or `v4l2:///dev/video0`), a CSI camera (`csi://0`), a stream (`rtsp://`, `http://`), or a "
        "GStreamer pipeline (`gstreamer://`)."
    )
    fps: Annotated[float, AfterValidator(_rate)] | None = Field(
        default=None,
        description="Frames per second to read; 0 is as fast as the network takes them (none is superseded); null "
        "leaves the source its own pace (a clip's rate, a live camera's, one image per second).",
    )
    loop: bool = Field(
        default=False, description="Start a clip or a folder over at its end; without it the camera then ends."
    )
    timeout: Seconds = Field(
        default=5.0, description="Seconds without a frame after which the source counts as failed."
    )
    max_fps: Annotated[float, Field(ge=SLOWEST, le=FASTEST)] | None = Field(
        default=None, description="Most frames per second to classify; the others are passed over. null takes all."
    )
    region: RegionConfig = Field(default=RegionConfig(), description="Part of the picture to classify.")
    motion: MotionConfig = Field(default=MotionConfig(), description="Classify only pictures that changed.")
    frozen: Seconds | None = Field(
        default=30.0,
        description="Seconds that a live camera may give one and the same picture before it is opened again; null is "
        "for ever.",
    )
    black: Seconds | None = Field(
        default=10.0, description="Seconds of black pictures after which a live camera's status says so; null never."
    )
    retry: RetryConfig = Field(default=RetryConfig(), description="Waits between tries to open the source.")


class BackendConfig(Section):
    """What runs the network."""

    name: str = Field(
        default="auto", description="`auto` takes the fastest that can run here; a name insists on that one."
    )
    options: dict[str, Annotated[object, AfterValidator(_option)]] = Field(
        default={}, description="Options of the backend, for example `threads: 2` for `cpu`."
    )


class StateConfig(Section):
    """When the smoothed label changes: once `agree` of the last `window` frames have the same label."""

    agree: int = Field(default=3, ge=1, le=1000, description="Frames that must have the same label.")
    window: int = Field(default=5, ge=1, le=1000, description="Frames looked back on, the newest included.")

    @model_validator(mode="after")
    def _majority(self) -> "StateConfig":
        if not self.window / 2 < self.agree <= self.window:
            raise ValueError(
                f"`agree` ({self.agree}) more than half of `window` ({self.window}) and no greater than it, "
                "or two labels could win at once"
            )
        return self


class TlsConfig(Section):
    """Encryption between here and the broker, whose certificate and host name are always checked."""

    enabled: bool = Field(default=False, description="Speak TLS (1.2 or later); the usual port is then 8883.")
    ca: str | None = Field(
        default=None, min_length=1, description="File of the CA certificates to trust (PEM); null is the system's."
    )
    certificate: str | None = Field(
        default=None, min_length=1, description="File of this device's own certificate (PEM); null sends none."
    )
    key: str | None = Field(
        default=None, min_length=1, description="File of that certificate's key (PEM); null: in the same file."
    )

    @model_validator(mode="after")
    def _complete(self) -> "TlsConfig":
        given = [key for key in ("ca", "certificate", "key") if getattr(self, key) is not None]
        if given and not self.enabled:
            raise ValueError(f"`enabled: true` beside `{given[0]}`")
        if self.key is not None and self.certificate is None:
            raise ValueError("`certificate` beside `key`")
        return self


class OutboxConfig(Section):
    """Where frame and state messages wait for the broker, and how many."""

    folder: str | None = Field(
        default=None,
        min_length=1,
        description="Folder of the file `outbox-<device>.sqlite3`; null is `$STATE_DIRECTORY`, else "
        "`$XDG_STATE_HOME/edgemeta`, else `~/.local/state/edgemeta`.",
    )
    size: int = Field(
        default=256,
        ge=0,
        le=1_000_000,
        description="Megabytes of messages kept on disk, then the oldest are dropped; 0 keeps them in memory only.",
    )
    memory: int = Field(
        default=8, ge=1, le=4096, description="Megabytes of messages kept in memory where the disk takes none."
    )
    age: float = Field(
        default=86400.0,
        gt=0,
        le=31_536_000,
        allow_inf_nan=False,
        description="Seconds that a message is kept, then it is dropped.",
    )
    pace: int = Field(
        default=500, ge=1, le=10_000, description="Messages per second replayed beside the live ones, at most."
    )


class MqttConfig(Section):
    """The broker and how to speak with it."""

    host: str = Field(default="localhost", min_length=1, description="Name or address of the broker.")
    port: Port = Field(default=1883, description="TCP port of the broker.")
    tls: TlsConfig = Field(default=TlsConfig(), description="Encryption.")
    version: Literal[5, "3.1.1"] = Field(default=5, description="MQTT version, `5` or `3.1.1`.")
    base: Annotated[str, AfterValidator(_base_topic)] = Field(
        default="edgemeta", description="First level(s) of every topic."
    )
    client_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=128,
        description="MQTT client id; null is `edgemeta-<device>`. One per client.",
    )
    username: str | None = Field(default=None, min_length=1, description="User name at the broker; null sends none.")
    username_file: str | None = Field(default=None, min_length=1, description="File whose first line is the user name.")
    username_env: str | None = Field(
        default=None, min_length=1, description="Environment variable that holds the user name."
    )
    password: SecretStr | None = Field(default=None, description="Password in plain text. Better: one of the next two.")
    password_file: str | None = Field(default=None, min_length=1, description="File whose first line is the password.")
    password_env: str | None = Field(
        default=None, min_length=1, description="Environment variable that holds the password."
    )
    keepalive: int = Field(default=30, ge=1, le=65535, description="Seconds of silence after which a ping is sent.")
    qos: Literal[0, 1] = Field(
        default=1, description="Quality of service of frame and stats messages; 1 is acknowledged."
    )
    expiry: Annotated[int, Field(ge=1, le=4_294_967_295)] | None = Field(
        default=86400,
        description="Seconds that the broker keeps a frame or stats message for a subscriber that is away (MQTT 5); "
        "null is for ever.",
    )
    outbox: OutboxConfig = Field(default=OutboxConfig(), description="Messages that wait for the broker.")
    retry: BrokerRetryConfig = Field(default=BrokerRetryConfig(), description="Waits between tries to connect.")

    @model_validator(mode="after")
    def _one_login(self) -> "MqttConfig":
        names, passwords = (
            [key for key in (what, f"{what}_file", f"{what}_env") if getattr(self, key) is not None]
            for what in ("username", "password")
        )
        for given in (names, passwords):
            if len(given) > 1:
                raise ValueError(f"only one of {', '.join(given)}")
        if passwords and not names:
            raise ValueError(f"`username` beside `{passwords[0]}`")
        return self


class StatsConfig(Section):
    """The statistics message."""

    period: Seconds = Field(default=10.0, description="Seconds between two stats messages.")


class LogConfig(Section):
    """What the service writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is written."
    )


class Config(Section):
    """The whole config of one service."""

    device: Name = Field(default_factory=hostname, description="This device's name in topics; default: host name.")
    model: str = Field(
        default="resnet8-cifar10", min_length=1, description="A shipped model's name or a model file's path."
    )
    backend: BackendConfig = Field(default=BackendConfig(), description="What runs the network.")
    cameras: dict[CameraName, CameraConfig] = Field(min_length=1, description="The cameras by name.")
    top_k: int = Field(default=3, ge=1, le=1000, description="Labels named in a frame message, most probable first.")
    state: StateConfig = Field(default=StateConfig(), description="When the smoothed label changes.")
    mqtt: MqttConfig = Field(default=MqttConfig(), description="The broker.")
    stats: StatsConfig = Field(default=StatsConfig(), description="The statistics message.")
    log: LogConfig = Field(default=LogConfig(), description="The log.")


def resolved(config: Config, folder: Path) -> Config:
    """Return the config with relative paths meant from `folder`, where the config file lies.

    A model that is no file there stays as it is: the name of a shipped one.
    """
    cameras = {
        name: camera.model_copy(update={"source": address_from(camera.source, folder)})
        for name, camera in config.cameras.items()
    }
    model = str(folder / config.model) if (folder / config.model).is_file() else config.model
    mqtt = _placed(config.mqtt, folder, "username_file", "password_file")
    tls = _placed(mqtt.tls, folder, "ca", "certificate", "key")
    outbox = _placed(mqtt.outbox, folder, "folder")
    mqtt = mqtt.model_copy(update={"tls": tls, "outbox": outbox})
    return config.model_copy(update={"model": model, "cameras": cameras, "mqtt": mqtt})


def _placed(section: AnySection, folder: Path, *keys: str) -> AnySection:
    """Return a section with the paths under these keys, where they are given, meant from `folder`."""
    given = {key: getattr(section, key) for key in keys}
    return section.model_copy(update={key: str(folder / path) for key, path in given.items() if path is not None})


def digest(config: Config) -> str:
    """Return the SHA-256, in hex, of the whole config as canonical JSON, passwords starred out."""
    values = config.model_dump(mode="json")
    for camera in values["cameras"].values():
        camera["source"] = without_password(camera["source"])
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
