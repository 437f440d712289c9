"""Records of the commands. Validation is strict: unknown fields and values of another type are refused."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9A-Fa-f]{64})?$"
"""Names of models, optionally with the digest of the file: no path, no hidden file."""


def _file_name(value: str) -> str:
    if not re.fullmatch(FILE_NAME, value):
        raise ValueError(
            "a name of letters, digits, '.', '_' and '-', without a path, optionally with `@sha256:` and 64 digits"
        )
    return value


def _rate(value: float) -> float:
    if value and not 0.001 <= value <= 1000:
        raise ValueError("0, or 0.001 to 1000")
    return value


Transaction = Annotated[str, Field(max_length=64)]


class Command(BaseModel):
    """Fields of every command."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True, defer_build=True)

    transaction: Transaction | None = Field(default=None, description="Returned in the answer.")


class ReloadCommand(Command):
    """Reload the config. The payload may be empty."""


class RestartCommand(Command):
    """Restart the service with the config file as it is then, if it has no mistake. The payload may be empty."""


class SetCommand(Command):
    """Change settings of a camera, or of all, until the config is reloaded or the service restarted.

    With `mqtt.keep_settings` they are kept. A field that is left out keeps its value; null is what the config says.
    """

    camera: str | None = Field(default=None, max_length=64, description="Only this camera; null is all cameras.")
    enabled: bool | None = Field(default=None, description="Whether the camera is read and its frames are classified.")
    max_fps: Annotated[float, AfterValidator(_rate)] | None = Field(
        default=None, description="Most frames per second to classify; 0 classifies all."
    )
    score: Annotated[float, Field(ge=0.001, le=0.999, allow_inf_nan=False)] | None = Field(
        default=None,
        description="Least score: detection, of every label (`objects.scores`); classification, at which a label "
        "becomes the state (`state.enter_score`).",
    )
    labels: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(min_length=1)] | None = Field(
        default=None, description="Detection: labels to report (`objects.labels`)."
    )


class ModelCommand(Command):
    """Swap to another model, until the config is reloaded or the service restarted."""

    model: Annotated[str, AfterValidator(_file_name)] = Field(
        json_schema_extra={"pattern": FILE_NAME},
        description="A shipped model's name, or a file's in `swap.model_folder`, with or without `.safetensors`; "
        "with `@sha256:HEX` only a file with that digest.",
    )
    camera: str | None = Field(
        default=None,
        max_length=64,
        description="Only for this camera; null is for all cameras without a model of their own.",
    )
    update: bool = Field(
        default=False,
        description="Whether the file of this name in `swap.model_folder` may be replaced by a newer one of the "
        "registry before, with `swap.updates: download`.",
    )
