"""The whole config as records: every key, its type, bounds, default and meaning.

These records, and those of a camera, the broker and the page beside this file, are the one definition: the validator,
docs/configuration.md and its test read them. Keys that are not here are errors, and so are values of another type ("8"
is not 8).
"""

import hashlib
import json
import re
import socket
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.homeassistant import HomeAssistantConfig
from edgemeta.daemon.config.section import Name, Seconds, Section, name_of_level
from edgemeta.daemon.config.source_address import address_from, without_password
from edgemeta.daemon.config.state import PublishConfig, StateConfig
from edgemeta.daemon.config.swap import SwapConfig, TrustConfig
from edgemeta.daemon.config.web import WebConfig
from edgemeta.model.address import MARK

RESERVED = frozenset({"availability", "cmd", "health", "info", "resp", "stats", "swap"})
"""Names on the level of cameras that other topics of a device use."""


def _camera_name(value: str) -> str:
    if value in RESERVED:
        raise ValueError(f"a camera name other than {', '.join(sorted(RESERVED))}")
    return name_of_level(value)


def _label(value: str) -> str:
    if not (1 <= len(value) <= 200 and value.isprintable()):
        raise ValueError("1 to 200 printable characters")
    return value


def _option(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("text, a number, true or false")
    return value


def hostname() -> str:
    """Return the first label of the machine's name, with characters a topic level cannot hold turned into '-'."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:64] or "edgemeta"


CameraName = Annotated[str, AfterValidator(_camera_name)]
Label = Annotated[str, AfterValidator(_label)]

AnySection = TypeVar("AnySection", bound=Section)


class BackendConfig(Section):
    """What runs the network."""

    name: str = Field(
        default="auto", description="`auto` takes the fastest that can run here; a name insists on that one."
    )
    options: dict[str, Annotated[object, AfterValidator(_option)]] = Field(
        default={}, description="Options of the backend, for example `threads: 2` for `cpu`."
    )


class StatsConfig(Section):
    """The statistics message."""

    period: Seconds = Field(default=10.0, description="Seconds between two stats messages.")


class LogConfig(Section):
    """What the service writes to standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is written."
    )
    format: Literal["text", "json"] = Field(
        default="text", description="Lines for people, or one JSON object per line for programs."
    )


class Config(Section):
    """The whole config of one service."""

    device: Name = Field(default_factory=hostname, description="This device's name in topics; default: host name.")
    model: str = Field(
        default="resnet8-cifar10",
        min_length=1,
        description="A shipped model's name or a model file's path, with its digest where it must be that very file: "
        "`NAME@sha256:HEX`, `PATH@sha256:HEX` (`edgemeta check` prints it).",
    )
    swap: SwapConfig = Field(default=SwapConfig(), description="How another model takes over.")
    trust: TrustConfig = Field(default=TrustConfig(), description="Whose models may run.")
    backend: BackendConfig = Field(default=BackendConfig(), description="What runs the network.")
    cameras: dict[CameraName, CameraConfig] = Field(min_length=1, description="The cameras by name.")
    top_k: int = Field(default=3, ge=1, le=1000, description="Labels named in a frame message, most probable first.")
    labels: dict[Label, Label] = Field(
        default={},
        description="Other names for the network's labels; those of one name become one, their scores added.",
    )
    state: StateConfig = Field(default=StateConfig(), description="When a camera's state changes.")
    publish: PublishConfig = Field(default=PublishConfig(), description="Which frames are published.")
    mqtt: MqttConfig = Field(default=MqttConfig(), description="The broker.")
    homeassistant: HomeAssistantConfig = Field(
        default=HomeAssistantConfig(), description="Discovery by Home Assistant."
    )
    web: WebConfig = Field(default=WebConfig(), description="The live page, health and metrics.")
    stats: StatsConfig = Field(default=StatsConfig(), description="The statistics message.")
    log: LogConfig = Field(default=LogConfig(), description="The log.")

    def model_of(self, camera: str) -> str:
        """Name or path of a camera's model: its own, else the service's."""
        return self.cameras[camera].model or self.model


def resolved(config: Config, folder: Path) -> Config:
    """Return the config with relative paths meant from `folder`, where the config file lies.

    A model that is no file there stays as it is: the name of a shipped one.
    """

    def model_from(name: str | None) -> str | None:
        if name is None:
            return None
        place, mark, digest = name.rpartition(MARK) if MARK in name else (name, "", "")
        return f"{folder / place}{mark}{digest}" if (folder / place).is_file() else name

    cameras = {
        name: camera.model_copy(
            update={"source": address_from(camera.source, folder), "model": model_from(camera.model)}
        )
        for name, camera in config.cameras.items()
    }
    model = model_from(config.model)
    swap = _placed(config.swap, folder, "folder")
    trust = config.trust.model_copy(update={"keys": [str(folder / key) for key in config.trust.keys]})
    mqtt = _placed(config.mqtt, folder, "username_file", "password_file")
    tls = _placed(mqtt.tls, folder, "ca", "certificate", "key")
    outbox = _placed(mqtt.outbox, folder, "folder")
    mqtt = mqtt.model_copy(update={"tls": tls, "outbox": outbox})
    web = _placed(config.web, folder, "token_file")
    return config.model_copy(
        update={"model": model, "cameras": cameras, "mqtt": mqtt, "web": web, "swap": swap, "trust": trust}
    )


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
