"""What every part of the config is made of: a mapping without unknown keys, and the values that several parts share."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def name_of_level(value: str) -> str:
    """Return a name that a topic level and a file name can hold. Raises ValueError, saying what those are."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
        raise ValueError("1 to 64 letters, digits, '-' or '_'")
    return value


def topic_levels(value: str) -> str:
    """Return one or more topic levels. Raises ValueError, saying what those are."""
    levels = value.split("/")
    if value.startswith("$") or not all(re.fullmatch(r"[^+#/\x00-\x1f]+", level) for level in levels):
        raise ValueError("topic levels joined by '/', without '+', '#' or control characters, not starting with '$'")
    return value


Name = Annotated[str, AfterValidator(name_of_level)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]


class Section(BaseModel):
    """One mapping of the config: unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class RetryConfig(Section):
    """How long to wait before trying again: doubling from `first` to `cap`, each wait shortened by up to a half."""

    first: Seconds = Field(default=0.25, description="Longest wait after the first failure, in seconds.")
    cap: Seconds = Field(default=0.5, description="Longest wait of all, in seconds.")

    @model_validator(mode="after")
    def _ordered(self) -> "RetryConfig":
        if self.first > self.cap:
            raise ValueError(f"`first` ({self.first:g}) no greater than `cap` ({self.cap:g})")
        return self
