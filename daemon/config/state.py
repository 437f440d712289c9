"""The part of the config that says what is told of a camera: when its state changes, and which frames are published."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from edgemeta.daemon.config.section import Seconds, Section

Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class StateConfig(Section):
    """When the state changes: once `agree` of the last `window` frames say the same label, or that nothing is sure."""

    agree: int = Field(default=3, ge=1, le=1000, description="Frames that must say the same.")
    window: int = Field(default=5, ge=1, le=1000, description="Frames looked back on, the newest included.")
    enter: Score = Field(default=0.5, description="Score from which on a frame counts for its best label.")
    leave: Score = Field(default=0.4, description="The same for the label that is the state already; at most `enter`.")
    hold: Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)] = Field(
        default=0.0, description="Seconds that a state stays at least."
    )

    @model_validator(mode="after")
    def _possible(self) -> "StateConfig":
        if not self.window / 2 < self.agree <= self.window:
            raise ValueError(
                f"`agree` ({self.agree}) more than half of `window` ({self.window}) and no greater than it, "
                "or two labels could win at once"
            )
        if self.leave > self.enter:
            raise ValueError(f"`leave` ({self.leave:g}) no greater than `enter` ({self.enter:g})")
        return self


class PublishConfig(Section):
    """Which frames are published."""

    frames: Literal["every", "change"] = Field(
        default="every", description="A message for `every` frame, or only for one that brings a `change` of state."
    )
    heartbeat: Seconds = Field(
        default=60.0,
        description="Seconds after which the state is told again; with `frames: change` a frame message, too.",
    )
