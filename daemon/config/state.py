"""Config of what is published about a camera: when its state changes, and which frames are published."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from edgemeta.daemon.config.section import Seconds, Section

Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class StateConfig(Section):
    """When the state changes: once `min_frames` of the last `window_frames` frames agree on a label or on none."""

    min_frames: int = Field(
        default=3, ge=1, le=1000, description="Frames of the window that must have the same label to change the state."
    )
    window_frames: int = Field(default=5, ge=1, le=1000, description="Size of the window: the newest frames.")
    enter_score: Score = Field(default=0.5, description="Least score at which a frame counts for its best label.")
    leave_score: Score = Field(
        default=0.4, description="The same for the label that is the state already; at most `enter_score`."
    )
    min_duration: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=0.0, description="Least seconds that a state lasts."
    )

    @model_validator(mode="after")
    def _possible(self) -> "StateConfig":
        if not self.window_frames / 2 < self.min_frames <= self.window_frames:
            raise ValueError(
                f"`min_frames` ({self.min_frames}) more than half of `window_frames` ({self.window_frames}) and no "
                "greater than it, or two labels could win at once"
            )
        if self.leave_score > self.enter_score:
            raise ValueError(
                f"`leave_score` ({self.leave_score:g}) no greater than `enter_score` ({self.enter_score:g})"
            )
        return self


class PublishConfig(Section):
    """Which frames are published."""

    frames: Literal["every", "change"] = Field(
        default="every", description="`every`: a message per frame; `change`: only for a frame that changes the state."
    )
    plain_counts: bool = Field(
        default=False,
        description="Publish how many of each label are present as plain numbers, too, on `<camera>/count/<label>` and "
        "`<camera>/count/<zone>/<label>`.",
    )
    heartbeat_interval: Seconds = Field(
        default=60.0,
        description="Seconds after which the state is published again; with `frames: change` a frame message, too.",
    )
