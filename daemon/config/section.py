"""Base class of all config sections, and the value types that several sections share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from unicodedata import normalize

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def name_of_level(value: str) -> str:
    """Return a name that is valid as a topic level and as a file name. Raises ValueError with the rule."""
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value):
        near = re.sub(r"[^A-Za-z0-9_-]+", "-", normalize("NFKD", value).encode("ascii", "ignore").decode()).strip("-")
        hint = f", for example `{near[:64]}`" if (near and not value.isascii()) or (" " in value and near) else ""
        raise ValueError(f"1 to 64 letters (a to z), digits, '-' or '_'{hint}")
    return value


def topic_levels(value: str) -> str:
    """Return one or more topic levels. Raises ValueError with the rule."""
    levels = value.split("/")
    if value.startswith("$") or not all(re.fullmatch(r"[^+#/\x00-\x1f]+", level) for level in levels):
        raise ValueError("topic levels joined by '/', without '+', '#' or control characters, not starting with '$'")
    return value


def path_text(value: str) -> str:
    """Return a path that a file system can have. Raises ValueError with the rule."""
    if not all(len(part.encode()) <= MOST_OF_PART for part in value.split("/")) or len(value.encode()) > MOST_OF_PATH:
        raise ValueError(f"a path of at most {MOST_OF_PATH} bytes, {MOST_OF_PART} between two `/`")
    return value


def _label(value: str) -> str:
    if not (1 <= len(value) <= 200 and value.isprintable()):
        raise ValueError("1 to 200 printable characters")
    return value


@dataclass(frozen=True)
class Relative:
    """Marks the type of a key that may be relative to the config file's folder; `resolve` gives it from there."""

    resolve: Callable[[Any, Path], Any]


def _shown_name(value: str) -> str:
    if not (1 <= len(value) <= 100 and value.isprintable() and value.strip() == value):
        raise ValueError("1 to 100 printable characters, not beginning or ending with a blank")
    return value


PATH = Relative(lambda path, folder: str(folder / path))
PathText = Annotated[str, Field(min_length=1), AfterValidator(path_text), PATH]
Name = Annotated[str, AfterValidator(name_of_level)]
Label = Annotated[str, AfterValidator(_label)]
ShownName = Annotated[str, AfterValidator(_shown_name)]
Port = Annotated[int, Field(ge=1, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]

MOST_OF_PATH, MOST_OF_PART = 4000, 250
"""Bytes of a path and of each name in it, with room for the ends that the service appends, such as `.sig`."""

INITIAL_DELAY = "Seconds before the first retry, at most."
MAX_DELAY = "Seconds before any retry, at most."


class Section(BaseModel):
    """One mapping of the config. Unknown keys and values of another type are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)


class RetryConfig(Section):
    """Delays between attempts, doubling from `initial_delay` to `max_delay`; each is a random half to whole of that."""

    initial_delay: Seconds = Field(default=0.25, description=INITIAL_DELAY)
    max_delay: Seconds = Field(default=0.5, description=MAX_DELAY)

    @model_validator(mode="after")
    def _ordered(self) -> "RetryConfig":
        if self.initial_delay > self.max_delay:
            raise ValueError(
                f"`initial_delay` ({self.initial_delay:g}) no greater than `max_delay` ({self.max_delay:g})"
            )
        return self
