"""Config of a camera: where its frames come from, which of them are classified, when it counts as failed."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from edgemeta.daemon.config.login import (
    Password,
    PasswordFile,
    PasswordVariable,
    UserName,
    UserNameFile,
    UserNameVariable,
    keys_of_login,
)
from edgemeta.daemon.config.objects import LineConfig, ObjectsConfig, ZoneConfig
from edgemeta.daemon.config.picture import CircleConfig, Polygons
from edgemeta.daemon.config.reloading import Applies, marker
from edgemeta.daemon.config.section import PATH, Name, Relative, RetryConfig, Seconds, Section, ShownName
from edgemeta.daemon.config.snapshots import SnapshotsConfig
from edgemeta.daemon.config.source_address import AddressError, SourceAddress
from edgemeta.daemon.config.state import PublishConfig, StateConfig
from edgemeta.daemon.config.tracking import TrackingConfig
from edgemeta.model.address import MARK
from edgemeta.model.small_file import is_file

SLOWEST, FASTEST = 0.001, 1000.0
"""Frames per second."""
MAX_TILES, MAX_OVERLAP = 8, 0.9
Transport = Literal["tcp", "udp", "multicast"]
Decode = Literal["software", "auto", "cuda", "vaapi", "qsv", "v4l2m2m"]
Reduce = Literal[1, 2, 4, 8, "auto"]
Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
PositiveFraction = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def _address(value: object) -> SourceAddress:
    text = str(value) if type(value) is int and 0 <= value < 1000 else value
    if not isinstance(text, str) or not text:
        raise ValueError("text")
    try:
        return SourceAddress(text)
    except AddressError as error:
        raise ValueError(error.expected) from error


def _model_beside(name: str, folder: Path) -> str:
    """Return a model's address with a path resolved; the name of a shipped one, which is no file there, stays."""
    place, mark, digest = name.rpartition(MARK) if MARK in name else (name, "", "")
    return f"{folder / place}{mark}{digest}" if is_file(folder / place) else name


MODEL_ADDRESS = Relative(_model_beside)


def _rate(value: float) -> float:
    if value != 0 and not SLOWEST <= value <= FASTEST:
        raise ValueError(f"0, or {SLOWEST:g} to {FASTEST:g}")
    return value


class RegionConfig(Section):
    """A part of a camera's frame, in fractions of its width and height."""

    left: Fraction = Field(default=0.0, description="Left edge of the region, as a fraction of the frame's width.")
    top: Fraction = Field(default=0.0, description="Top edge of the region, as a fraction of the frame's height.")
    width: PositiveFraction = Field(default=1.0, description="Width of the region, as a fraction of the frame's width.")
    height: PositiveFraction = Field(
        default=1.0, description="Height of the region, as a fraction of the frame's height."
    )

    @model_validator(mode="after")
    def _inside(self) -> "RegionConfig":
        for begin, extent in (("left", "width"), ("top", "height")):
            first, size = getattr(self, begin), getattr(self, extent)
            if first + size > 1 + 1e-9:
                raise ValueError(f"`{begin}` ({first:g}) and `{extent}` ({size:g}) together at most 1")
        return self


class TilesConfig(Section):
    """How a camera's picture is cut into tiles, each of which is a whole image for the model."""

    columns: int = Field(default=1, ge=1, le=MAX_TILES, description="Tiles beside each other.")
    rows: int = Field(default=1, ge=1, le=MAX_TILES, description="Tiles above each other.")
    overlap: float = Field(
        default=0.2,
        ge=0,
        le=MAX_OVERLAP,
        allow_inf_nan=False,
        description="Fraction of a tile's side that the next tile shows, too.",
    )


class MotionConfig(Section):
    """When a frame counts as changed: enough of its pixels differ enough from the last frame that was classified."""

    enabled: bool = Field(default=False, description="Classify only frames that changed.")
    threshold: int = Field(
        default=25, ge=1, le=255, description="Least change of a colour channel, of 255, that counts as motion."
    )
    min_area: PositiveFraction = Field(
        default=0.005, description="Least fraction of the frame's pixels that must have changed."
    )
    max_interval: Seconds = Field(
        default=10.0, description="Seconds after which a frame is classified even without motion."
    )
    ignore: Polygons = Field(
        default=[],
        description="Parts of the classified picture whose changes do not count, each a list of corners as those of a "
        "zone.",
    )
    publish: bool = Field(
        default=False, description="Publish on `<camera>/motion` whether there is motion, also without `enabled`."
    )
    off_after: Seconds = Field(default=5.0, description="Seconds without a change after which there is no motion.")


class CameraTlsConfig(Section):
    """TLS to a camera, of `https://` and `rtsps://`."""

    verify: bool = Field(
        default=True,
        description="Check the camera's certificate and its name; false gives the login to any server in its place.",
    )
    ca_file: Annotated[str | None, PATH] = Field(
        default=None,
        min_length=1,
        description="File of the certificates to trust (PEM), such as the camera's own; null uses the system's.",
    )


Source = Annotated[
    SourceAddress,
    PlainValidator(_address),
    PlainSerializer(str),
    WithJsonSchema({"type": "string"}),
    Relative(SourceAddress.beside),
]


class CameraConfig(Section):
    """One camera."""

    source: Source = Field(
        description="Where frames come from: `synthetic://`, an image, a folder of images, a video file, a V4L2 device "
        "(`0`, `/dev/video0` or `v4l2:///dev/video0`), a CSI camera (`csi://0`), a stream (`rtsp://`, `http://`, "
        "`rtmp://`, `udp://`), or a GStreamer pipeline (`gstreamer://`). Of a URL only scheme, host and port are ever "
        "shown."
    )
    snapshot_source: Source | None = Field(
        default=None,
        description="Another stream of the same view, `rtsp://` or `http://`, from which the pictures of `snapshots` "
        "are taken, with the same login: mostly the large one, where `source` is the small one; null takes those that "
        "are classified.",
    )
    transport: Transport | None = Field(
        default=None,
        description="How the frames of `rtsp://` come: `tcp`, `udp` or `multicast`; null is `tcp`, which loses none.",
    )
    decode: Decode = Field(
        default="software",
        description="What decodes a network stream: `software`, or a device, `cuda`, `vaapi`, `qsv` or `v4l2m2m`, with "
        "software where it is missing or fails; `auto` takes the first of them that opens.",
    )
    reduce: Reduce = Field(
        default=1,
        description="Pictures of a network stream are made smaller as they are decoded: both sides are divided by 2, 4 "
        "or 8; `auto` divides by as much as leaves no fewer pixels than the model's input has. Everything sees the "
        "small picture but `snapshot_source`.",
    )
    name: Annotated[ShownName | None, Applies.AT_ONCE] = Field(
        default=None, description="Name of the camera for people, in Home Assistant; null is that in topics."
    )
    enabled: bool = Field(default=True, description="Whether the camera is read; false closes its source.")
    show_path: bool = Field(default=False, description="Show the path of a URL, too; login and query never are.")
    username: UserName = None
    username_file: UserNameFile = None
    username_env: UserNameVariable = None
    password: Password = None
    password_file: PasswordFile = None
    password_env: PasswordVariable = None
    tls: CameraTlsConfig = Field(default=CameraTlsConfig(), description="Certificates of `https://` and `rtsps://`.")
    fps: Annotated[float, AfterValidator(_rate)] | None = Field(
        default=None,
        description="Frames per second to read; 0 reads as fast as the model runs (no frame is superseded); null "
        "keeps the source's own rate (a clip's, a live camera's, one image or snapshot per second).",
    )
    loop: bool = Field(default=False, description="Restart a clip or a folder at its end; false ends the camera there.")
    frame_timeout: Seconds = Field(
        default=5.0, description="Seconds without a frame after which the source counts as failed."
    )
    deinterlace: bool = Field(
        default=False, description="Make the picture from the upper field alone, where the camera interlaces two."
    )
    rotation: Literal[0, 90, 180, 270] = Field(
        default=0, description="Degrees by which the picture is turned clockwise."
    )
    circle: CircleConfig | None = Field(
        default=None,
        description="Circle of a fisheye lens, in the turned picture: that is cut to the square around the circle, and "
        "black outside of it; null: no such lens.",
    )
    privacy_masks: Polygons = Field(
        default=[],
        description="Parts of the turned and cut picture that are blacked out before anything else sees them, each a "
        "list of corners `[x, y]` as fractions of its width and height; `region` is a part of what is left.",
    )
    max_fps: Annotated[Annotated[float, Field(ge=SLOWEST, le=FASTEST)] | None, Applies.AT_ONCE] = Field(
        default=None, description="Most frames per second to classify; the others are skipped. null classifies all."
    )
    region: RegionConfig = Field(default=RegionConfig(), description="Part of the frame to classify.")
    tiles: Annotated[TilesConfig, Applies.AT_ONCE] = Field(
        default=TilesConfig(), description="Tiles that the model runs on one by one."
    )
    motion: MotionConfig = Field(default=MotionConfig(), description="Classify only frames that changed.")
    frozen_after: Seconds | None = Field(
        default=10.0,
        description="Seconds without any change of the picture after which a live camera is `frozen`; null: never.",
    )
    black_after: Seconds | None = Field(
        default=10.0, description="Seconds of black frames after which a live camera is `black`; null: never."
    )
    delayed_after: Seconds | None = Field(
        default=1.0,
        description="Seconds by which a live camera's frames may arrive late, by the timestamps of its stream, before "
        "it is `delayed`; null: any.",
    )
    moved_after: Annotated[float, Field(ge=1, le=3600, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Seconds of another view after which a live camera has a problem: it was moved, turned or covered; "
        "null: never. Not for cameras that turn by themselves.",
    )
    retry: RetryConfig = Field(default=RetryConfig(), description="Delays between attempts to open the source.")
    model: Annotated[Annotated[str, Field(min_length=1)] | None, Applies.AFTER_SWAP, MODEL_ADDRESS] = Field(
        default=None, description="This camera's model, in the form of `model`; null uses `model`."
    )
    reject_unknown: Annotated[bool, Applies.AT_ONCE] = Field(
        default=True,
        description="Whether a frame that the model's rule of rejection rejects is `unknown`; false: every frame of a "
        "classification gets a label. Without effect for models without such a rule.",
    )
    objects: Annotated[ObjectsConfig | None, Applies.AT_ONCE] = Field(
        default=None, description="Replaces the whole section `objects` for this camera; null uses `objects`."
    )
    zones: Annotated[dict[Name, ZoneConfig], Applies.AT_ONCE] = Field(
        default={}, description="Zones of a detection by name: parts of the picture with counts of their own."
    )
    lines: Annotated[dict[Name, LineConfig], Applies.AT_ONCE] = Field(
        default={}, description="Lines of a detection by name: objects that cross them are reported."
    )
    tracking: Annotated[TrackingConfig | None, Applies.AT_ONCE] = Field(
        default=None, description="Replaces the whole section `tracking` for this camera; null uses `tracking`."
    )
    state: Annotated[StateConfig | None, Applies.AT_ONCE] = Field(
        default=None, description="Replaces the whole section `state` for this camera; null uses `state`."
    )
    publish: Annotated[PublishConfig | None, Applies.AT_ONCE] = Field(
        default=None, description="Replaces the whole section `publish` for this camera; null uses `publish`."
    )
    snapshots: Annotated[SnapshotsConfig | None, Applies.AT_ONCE] = Field(
        default=None, description="Replaces the whole section `snapshots` for this camera; null uses `snapshots`."
    )

    @model_validator(mode="after")
    def _one_login(self) -> "CameraConfig":
        names, passwords = keys_of_login(self)
        keys = [*names, *passwords]
        if keys and self.source.scheme == "udp":
            raise ValueError(f"no `{keys[0]}`: udp:// has no login")
        for name, address in (("source", self.source), ("snapshot_source", self.snapshot_source)):
            if keys and address is not None and address.has_login:
                raise ValueError(f"either a login in `{name}` or `{keys[0]}`")
        if keys and not self.source.is_network and not self.source.names_login:
            raise ValueError(f"`{{password}}` in `source` where `{keys[0]}` has its place")
        if passwords and not names and not self.source.names_login:
            raise ValueError(f"`username` beside `{passwords[0]}`")
        return self

    @model_validator(mode="after")
    def _keys_of_streams(self) -> "CameraConfig":
        if self.transport is not None and self.source.scheme != "rtsp":
            raise ValueError("`transport` for a source `rtsp://` only")
        pictures = self.snapshot_source
        if pictures is not None and (not pictures.is_network or pictures.scheme == "udp"):
            raise ValueError("`snapshot_source` rtsp://, rtmp:// or http://")
        if self.decode != "software" and not self.source.is_network:
            raise ValueError(f"`decode` for a network stream only, not `{self.decode}` here")
        if self.reduce != 1 and not self.source.is_network:
            raise ValueError(f"`reduce` for a network stream only, not `{self.reduce}` here")
        return self

    @property
    def address(self) -> SourceAddress:
        """The source with the login beside it."""
        return self.source.with_login(self, self.show_path)

    def requires_restart(self, running: "CameraConfig") -> bool:
        """Whether the camera must be restarted to apply this config instead of `running`."""
        return any(
            getattr(self, key) != getattr(running, key)
            for key, field in type(self).model_fields.items()
            if marker(field.metadata, Applies.CAMERA_REOPENS) is Applies.CAMERA_REOPENS
        )
