"""The message about the last model swap, as records."""

from datetime import datetime
from enum import Enum
from typing import Literal

from pydantic import Field

from edgemeta.daemon.messages.records import Message, ModelIdentity, Part


class SwapResult(str, Enum):
    """Result of a model swap; the last two report the models in use without a swap."""

    SWAPPED = "swapped"
    ROLLED_BACK = "rolled_back"
    REFUSED = "refused"
    CANCELLED = "cancelled"
    SETTLED = "settled"
    FALLBACK = "fallback"


class ShadowResult(Part):
    """Result of the shadow run, in which both models classify live frames."""

    frames: int = Field(ge=1, description="Frames classified by both models.")
    same_label: float = Field(ge=0, le=1, description="Share of them with the same best label.")
    before_us: int = Field(
        ge=0, description="Median time to preprocess and classify a frame, old model, in microseconds."
    )
    after_us: int = Field(ge=0, description="The same for the new model, while the old one is also running.")


class ExchangedModel(Part):
    """One model replaced by another."""

    cameras: list[str] = Field(description="The cameras with this model.")
    before: ModelIdentity = Field(description="The old model.")
    after: ModelIdentity = Field(description="The new model.")
    backend: str = Field(description="The backend that runs the new model.")
    shadow: ShadowResult | None = Field(
        description="Result of the shadow run; null if there was none or it did not finish."
    )
    served: int = Field(ge=0, description="Frames that the new model classified before the swap ended.")


class SwapTimes(Part):
    """Duration of each step in microseconds; null if it was not reached."""

    verify: int | None = Field(
        default=None, ge=0, description="Reading the file, and checking digest, signature and structure."
    )
    compile: int | None = Field(default=None, ge=0, description="Compiling.")
    warm_up: int | None = Field(default=None, ge=0, description="Warming up.")
    self_test: int | None = Field(default=None, ge=0, description="The self-test of the model file.")
    shadow: int | None = Field(default=None, ge=0, description="The shadow run.")
    trial: int | None = Field(
        default=None, ge=0, description="From the replacement until the new model had classified enough frames."
    )


class SwapMessage(Message):
    """Result of the last model swap, or the models in use without a swap."""

    time: datetime = Field(description="When it ended, UTC.")
    clock_synchronized: bool = Field(
        description="Whether the device's clock was synchronized when this was sent; if it is set later, sent again."
    )
    trigger: Literal["start", "file", "signal", "command"] = Field(description="What requested it.")
    result: SwapResult = Field(
        description="swapped: the new model is in use; rolled_back: the new model failed after replacement, the old "
        "one is in use again; refused: no model was replaced; cancelled: by a newer request, or the service stopped; "
        "settled: the models of the config are in use, earlier results no longer apply; fallback: the service has "
        "started with models used before, because one named by the config cannot be used."
    )
    reason: str | None = Field(description="Reason why no swap was made, or why the previous models are in use.")
    models: list[ExchangedModel] = Field(description="Old and new models; empty if the new one was not usable.")
    took_us: SwapTimes = Field(description="Duration of each step.")
