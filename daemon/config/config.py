"""The root record of the config: every key, its type, bounds, default and meaning.

This record and the sections beside this file are the only definition: validation, the table in docs/configuration.md
and its test read them. Unknown keys are errors, and so are values of another type ("8" is not 8).
"""

import hashlib
import json
import re
import socket
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field

from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.camera import MODEL_ADDRESS, CameraConfig
from edgemeta.daemon.config.collect import CollectConfig, TeachConfig
from edgemeta.daemon.config.fields import relative_mark
from edgemeta.daemon.config.homeassistant import HomeAssistantConfig
from edgemeta.daemon.config.objects import ObjectsConfig
from edgemeta.daemon.config.reloading import Applies
from edgemeta.daemon.config.section import Label, Name, PathText, Relative, Seconds, Section, ShownName, name_of_level
from edgemeta.daemon.config.snapshots import SnapshotsConfig
from edgemeta.daemon.config.state import PublishConfig, StateConfig
from edgemeta.daemon.config.swap import SwapConfig, TrustConfig
from edgemeta.daemon.config.tracking import TrackingConfig
from edgemeta.daemon.config.web import WebConfig
from edgemeta.model.zoo import DEFAULT
from edgemeta.plugins.api import Fallback
from edgemeta.plugins.frames import Place

MOST_CAMERAS = 1000

RESERVED = frozenset({"availability", "cmd", "health", "info", "resp", "stats", "swap"})
"""Topic levels of a device that are not cameras, so no camera can have these names."""


def _camera_name(value: str) -> str:
    if value in RESERVED:
        raise ValueError(f"a camera name other than {', '.join(sorted(RESERVED))}")
    return name_of_level(value)


def _option(value: object) -> object:
    if not isinstance(value, bool | int | float | str):
        raise ValueError("text, a number, true or false")
    return value


def hostname() -> str:
    """Return the first label of the host name, with characters that are not valid in a topic level replaced by '-'."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname().partition(".")[0])[:64] or "edgemeta"


CameraName = Annotated[str, AfterValidator(_camera_name)]

AnySection = TypeVar("AnySection", bound=Section)


class BackendConfig(Section):
    """What runs the model."""

    name: str = Field(
        default="auto",
        description="`auto` selects the fastest backend that can run here; a name selects that one only.",
    )
    options: dict[str, Annotated[object, AfterValidator(_option)]] = Field(
        default={}, description="Options of the backend, for example `threads: 2` for `cpu`."
    )
    fallback: Fallback = Field(
        default="cpu",
        description="What happens to layers that the backend does not support: `cpu` runs them on the backend `cpu`, "
        "with a warning in the log; `refuse` refuses the model.",
    )
    preprocess: Place = Field(
        default="cpu",
        description="Where frames are cropped, resized, converted and quantized: `cpu`, or `device`: the backend's, "
        "which then receives whole frames; only `cuda` can.",
    )


class BatchConfig(Section):
    """Frames of several cameras with the same model that run as one batch."""

    max_frames: int = Field(
        default=1, ge=1, le=64, description="Most frames in one run, one of each camera; 1 runs every frame on its own."
    )
    wait_ms: float = Field(
        default=0,
        ge=0,
        le=1000,
        allow_inf_nan=False,
        description="Milliseconds that a frame waits for those of other cameras; 0 takes those that wait already.",
    )


class StatsConfig(Section):
    """The statistics message."""

    interval: Seconds = Field(default=10.0, description="Seconds between two stats messages.")


class LogConfig(Section):
    """The log on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is logged."
    )
    format: Literal["text", "json"] = Field(
        default="text", description="`text`: lines for people; `json`: one JSON object per line."
    )


class Config(Section):
    """The whole config of one service."""

    device: Name = Field(default_factory=hostname, description="Name of this device in topics; default: the host name.")
    device_name: Annotated[ShownName | None, Applies.AT_ONCE] = Field(
        default=None, description="Name of this device for people, in Home Assistant; null is `device`."
    )
    model: Annotated[str, Applies.AFTER_SWAP, MODEL_ADDRESS] = Field(
        default=DEFAULT,
        min_length=1,
        description="Name of a shipped model, or path of a model file. A digest pins the file: `NAME@sha256:HEX`, "
        "`PATH@sha256:HEX` (`edgemeta check` prints it).",
    )
    watch_files: Annotated[bool, Applies.AT_ONCE] = Field(
        default=True, description="Reload when the config file, or a model file it names, has changed and is complete."
    )
    data_folder: PathText | None = Field(
        default=None,
        description="Folder of the outbox (`outbox-<device>.sqlite3`), of the last good models (`models-<device>/`), "
        "of collected pictures (`collected-<device>/`) and taught models (`taught-<device>/`); null is "
        "`$STATE_DIRECTORY`, else `$XDG_STATE_HOME/edgemeta`, else `~/.local/state/edgemeta`.",
    )
    swap: Annotated[SwapConfig, Applies.AT_ONCE] = Field(default=SwapConfig(), description="Model swaps.")
    trust: Annotated[TrustConfig, Applies.AFTER_SWAP] = Field(
        default=TrustConfig(), description="Signatures of models."
    )
    backend: Annotated[BackendConfig, Applies.AFTER_SWAP] = Field(
        default=BackendConfig(), description="What runs the model."
    )
    batch: Annotated[BatchConfig, Applies.AT_ONCE] = Field(
        default=BatchConfig(), description="Frames of several cameras in one run."
    )
    cameras: dict[CameraName, Annotated[CameraConfig, Applies.CAMERA_REOPENS]] = Field(
        min_length=1, max_length=MOST_CAMERAS, description="The cameras by name."
    )
    top_k: Annotated[int, Applies.AT_ONCE] = Field(
        default=3, ge=1, le=1000, description="Number of labels in a frame message, the most probable ones."
    )
    label_map: Annotated[dict[Label, Label], Applies.AT_ONCE] = Field(
        default={},
        description="Other names for the model's labels, `label: name`. Labels with the same name add up their scores.",
    )
    objects: Annotated[ObjectsConfig, Applies.AT_ONCE] = Field(
        default=ObjectsConfig(), description="Which detected objects count."
    )
    object_names: Annotated[dict[Label, Annotated[str, Field(min_length=1)]], MODEL_ADDRESS] = Field(
        default={},
        description="Models that name the objects of a label, `label: model`, as `edgemeta teach --of` makes them; of "
        "the best 8 in a frame. Labels are those of messages.",
    )
    tracking: Annotated[TrackingConfig, Applies.AT_ONCE] = Field(
        default=TrackingConfig(), description="How detected objects are followed from frame to frame."
    )
    state: Annotated[StateConfig, Applies.AT_ONCE] = Field(
        default=StateConfig(), description="When a camera's state changes."
    )
    publish: Annotated[PublishConfig, Applies.AT_ONCE] = Field(
        default=PublishConfig(), description="Which frames are published."
    )
    snapshots: Annotated[SnapshotsConfig, Applies.AT_ONCE] = Field(
        default=SnapshotsConfig(), description="Which pictures are published."
    )
    mqtt: MqttConfig = Field(default=MqttConfig(), description="The broker.")
    homeassistant: HomeAssistantConfig = Field(
        default=HomeAssistantConfig(), description="Discovery by Home Assistant."
    )
    web: WebConfig = Field(default=WebConfig(), description="The live page, health and metrics.")
    collect: CollectConfig = Field(default=CollectConfig(), description="Collecting labelled pictures.")
    teach: TeachConfig = Field(default=TeachConfig(), description="Teaching a network by the collected pictures.")
    stats: Annotated[StatsConfig, Applies.AT_ONCE] = Field(default=StatsConfig(), description="Statistics messages.")
    log: Annotated[LogConfig, Applies.AT_ONCE] = Field(default=LogConfig(), description="The log.")

    def snapshots_of(self, camera: str) -> SnapshotsConfig:
        """Return which pictures of a camera are published: its own section, else the service's."""
        return self.cameras[camera].snapshots or self.snapshots

    def model_of(self, camera: str) -> str:
        """Return the name or path of a camera's model: its own, else the service's."""
        return self.cameras[camera].model or self.model


def resolved(section: AnySection, folder: Path) -> AnySection:
    """Return a config, or a section, with what is marked `Relative` resolved against `folder`, the config file's."""
    update = {}
    for name, field in type(section).model_fields.items():
        mark = relative_mark(field)
        if mark is not None:
            update[name] = _resolved_value(getattr(section, name), folder, mark)
        else:
            update[name] = _resolved_below(getattr(section, name), folder)
    return section.model_copy(update=update)


def _resolved_value(value: Any, folder: Path, mark: Relative) -> Any:
    if isinstance(value, list):
        return [mark.resolve(each, folder) for each in value]
    if isinstance(value, dict):
        return {key: mark.resolve(each, folder) for key, each in value.items()}
    return None if value is None else mark.resolve(value, folder)


def _resolved_below(value: Any, folder: Path) -> Any:
    """Return a section, or a mapping of sections, resolved; any other value as it is."""
    if isinstance(value, Section):
        return resolved(value, folder)
    return {key: _resolved_below(each, folder) for key, each in value.items()} if isinstance(value, dict) else value


def digest(config: Config) -> str:
    """Return the SHA-256, in hex, of the whole config as canonical JSON, without passwords and hidden addresses."""
    return hashlib.sha256(json.dumps(config.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()
