"""How another model takes over, and which models may: the swap's and the signatures' part of the config."""

from typing import Annotated

from pydantic import Field

from edgemeta.daemon.config.section import Seconds, Section

Path = Annotated[str, Field(min_length=1)]


class SwapConfig(Section):
    """How a model takes the place of another while frames flow."""

    watch: bool = Field(
        default=True, description="Reload when the config file, or a model file it names, has changed and is whole."
    )
    shadow: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="Frames that the new model classifies beside the old one before it takes over; 0 for none.",
    )
    agree: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Least share of those frames that both must give the same label; 0 only reports the share.",
    )
    slowdown: Annotated[float, Field(gt=0, le=10_000)] | None = Field(
        default=None,
        description="How many times as long as the old model the new one may take for a frame; null only reports it.",
    )
    keep: int = Field(
        default=20, ge=1, le=10_000, description="Frames that the new model must serve before the old one is let go."
    )
    timeout: Seconds = Field(
        default=300.0, description="Seconds that the frames of `shadow`, and those of `keep`, may take to come."
    )
    fallback: bool = Field(
        default=True,
        description="Start with the models that served last where one that the config names cannot be used, or failed "
        "when it was tried on live frames; false ends such a start with exit code 78.",
    )
    folder: Path | None = Field(
        default=None, description="Folder of the models that the command `model` may choose; null refuses the command."
    )


class TrustConfig(Section):
    """Whose models may run."""

    keys: list[Path] = Field(
        default=[],
        max_length=100,
        description="Files of Ed25519 public keys (PEM). With any, a model runs only where `<model file>.sig` is a "
        "signature by one of them. Needs the extra `signature`.",
    )
