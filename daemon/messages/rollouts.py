"""What a fleet wants of a device, as a retained order, and how the device gets on with it, as a part of `info`."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, JsonValue

from edgemeta.daemon.config.swap import ConfigKey
from edgemeta.daemon.messages.commands import Command
from edgemeta.daemon.messages.records import Part

CHUNK = 49_152
"""Bytes of a model in one message, so that it fits brokers that take 64 KiB."""

MOST_BYTES = 1 << 30
"""Bytes of a model that may be ordered."""

MODEL_NAME = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"


def _http(value: str) -> str:
    if not value.startswith(("http://", "https://")) or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError("an address that begins with http:// or https://")
    return value


Address = Annotated[str, Field(max_length=2000), AfterValidator(_http)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


Progress: TypeAlias = Literal["none", "offered", "fetching", "trying", "done", "failed"]
"""How a device gets on with an order."""


class WantedModel(Part):
    """A model that a device is to use."""

    name: str = Field(pattern=MODEL_NAME, description="Its name.")
    sha256: Digest = Field(description="SHA-256 of its file.")
    size: int = Field(ge=1, le=MOST_BYTES, description="Bytes of its file.")
    address: Address | None = Field(
        default=None,
        description="Where the file is; null: in parts of 49,152 bytes at the broker, on `<base>/.models/SHA256/0` and "
        "so on, retained.",
    )
    signature: Annotated[str, Field(pattern="^[0-9a-f]{128}$")] | None = Field(
        default=None, description="Its signature in hex; null without one."
    )


class RolloutCommand(Command):
    """Use this model, and these values of config keys, from now on, also after a restart, instead of the config's.

    The message is retained: a device that is off gets it when it returns. Needs `swap.rollouts`.
    """

    rollout: str = Field(pattern=r"^[A-Za-z0-9._-]{1,64}$", description="The rollout; another one is tried again.")
    device: str = Field(max_length=64, description="The device that is meant; another one refuses it.")
    model: WantedModel | None = Field(description="The model; null is what the config says.")
    values: dict[ConfigKey, JsonValue] = Field(
        default={},
        max_length=100,
        description="Values of config keys by their dotted names, instead of those in the config file; needs "
        "`swap.rollout_keys`.",
    )


class RolloutState(Part):
    """The order of a rollout, and how the device gets on with it."""

    accepts: Literal["offer", "install"] = Field(description="`swap.rollouts`.")
    keys: list[str] = Field(default=[], description="`swap.rollout_keys`.")
    values: dict[str, JsonValue] = Field(default={}, description="Values of rollouts that are in use, by their keys.")
    rollout: str | None = Field(default=None, description="The rollout; null before the first order.")
    sha256: str | None = Field(default=None, description="SHA-256 of the ordered model; null is the config's.")
    state: Progress = Field(
        default="none",
        description="none: no order yet; offered: it waits for somebody who installs it; fetching: its file is on the "
        "way; trying: verification, shadow run and trial; done: it is in use; failed: it is not, why is in `reason`.",
    )
    percentage: int | None = Field(default=None, description="How much is fetched; null in other states.")
    reason: str | None = Field(
        default=None, description="Why it failed, or what is in the way of fetching; null otherwise."
    )


def lets(keys: Sequence[str], key: str) -> bool:
    """Whether a key is one of `swap.rollout_keys`, or below one."""
    return any(f"{key}.".startswith(f"{each}.") for each in keys)
