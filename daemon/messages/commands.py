"""The commands, as records. What others send is strict: unknown fields and values of another type are refused."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

FILE_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9A-Fa-f]{64})?$"
"""Names of models, with the file's digest where wanted: no path, no hidden file."""


def _file_name(value: str) -> str:
    if not re.fullmatch(FILE_NAME, value):
        raise ValueError(
            "a name of letters, digits, '.', '_' and '-', without a path, with `@sha256:` and 64 digits if wanted"
        )
    return value


Transaction = Annotated[str, Field(max_length=64)]


class Command(BaseModel):
    """What every command may carry."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)

    transaction: Transaction | None = Field(default=None, description="Comes back in the answer.")


class ReloadCommand(Command):
    """Read the config again. An empty payload will do."""


class ModelCommand(Command):
    """Swap to another model, until the config is read again or the service starts anew."""

    model: Annotated[str, AfterValidator(_file_name)] = Field(
        json_schema_extra={"pattern": FILE_NAME},
        description="A shipped model's name, or a file's in `swap.model_folder`, with or without `.safetensors`; "
        "`@sha256:HEX` after it takes that very file only.",
    )
    camera: str | None = Field(
        default=None, max_length=64, description="Only for this camera; null is for all without one of their own."
    )
