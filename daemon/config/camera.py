"""A camera's part of the config: where its frames come from, which of them are classified, when it counts as failed."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from edgemeta.daemon.config.section import RetryConfig, Seconds, Section
from edgemeta.daemon.config.state import PublishConfig, StateConfig

SLOWEST, FASTEST = 0.001, 1000.0
"""Frames per second."""
Share = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
PositiveShare = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def _number_as_text(value: object) -> object:
    return str(value) if type(value) is int and value >= 0 else value


def _rate(value: float) -> float:
    if value != 0 and not SLOWEST <= value <= FASTEST:
        raise ValueError(f"0, or {SLOWEST:g} to {FASTEST:g}")
    return value


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
    model: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="This camera's model, written as the service's; null takes that."
    )
    state: StateConfig | None = Field(
        default=None, description="All of `state` for this camera; null takes the service's."
    )
    publish: PublishConfig | None = Field(
        default=None, description="All of `publish` for this camera; null takes the service's."
    )

    def requires_restart(self, running: "CameraConfig") -> bool:
        """Whether going by this instead of `running` takes a new start of the camera; some keys do not."""
        same = {key: getattr(running, key) for key in ("model", "state", "publish")}
        return self.model_copy(update=same) != running
