"""Config of model swaps and of model signatures."""

from typing import Annotated, Literal

from pydantic import Field

from edgemeta.daemon.config.reloading import Applies
from edgemeta.daemon.config.section import PathText, Seconds, Section

KEY = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
ConfigKey = Annotated[str, Field(pattern=KEY, max_length=200)]
"""A dotted key of the config."""


class SwapConfig(Section):
    """How a model replaces another while frames are processed."""

    shadow_frames: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="Frames that the new model classifies beside the old one before it replaces it; 0 for none.",
    )
    min_agreement: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Least fraction of the shadow frames with the same label from both models; 0 only reports it.",
    )
    max_slowdown: Annotated[float, Field(gt=0, le=10_000)] | None = Field(
        default=None,
        description="Largest ratio of the new model's time per frame to the old one's; null only reports it.",
    )
    trial_frames: int = Field(
        default=20, ge=1, le=10_000, description="Frames the new model must process before the old one is released."
    )
    timeout: Seconds = Field(
        default=300.0,
        description="Seconds to wait for the frames of the shadow run, and again for those of the trial.",
    )
    fallback_at_start: bool = Field(
        default=True,
        description="Start with the last good models where a configured one cannot be used, or failed its trial on "
        "live frames; false ends such a start with exit code 78.",
    )
    model_folder: PathText | None = Field(
        default=None,
        description="Folder of the model files that the command `model` may choose; null refuses the command.",
    )
    updates: Literal["folder", "known", "download"] = Field(
        default="folder",
        description="Where newer files of a model come from: `folder`: that folder; `known`: also the shipped networks "
        "and the registry of known networks, which are announced; `download`: those of the registry are fetched on "
        "command, too. The last two need the folder.",
    )
    update_timeout: Seconds = Field(
        default=900.0, description="Seconds after which fetching a network of the registry, or a rollout's, is ended."
    )
    rollouts: Annotated[Literal["refuse", "offer", "install"], Applies.RESTART] = Field(
        default="refuse",
        description="What happens to a model that `edgemeta fleet rollout` orders, for the cameras without a model of "
        "their own: `refuse`: nothing; `offer`: it waits until somebody installs it; `install`: it is fetched and "
        "tried as in every swap, and used instead of `model` until the next order, also after a restart.",
    )
    rollout_keys: Annotated[list[ConfigKey], Field(max_length=100), Applies.RESTART] = Field(
        default=[],
        description="Keys whose values `edgemeta fleet set` may order, where `rollouts` is not `refuse`, with all "
        "below each, such as `state` or `cameras.front.max_fps`; only keys that a reload applies at "
        "once, and none of `swap`.",
    )


class TrustConfig(Section):
    """Which signatures a model needs."""

    public_key_files: list[PathText] = Field(
        default=[],
        max_length=100,
        description="Files of Ed25519 public keys (PEM). With any, a model is used only if `<model file>.sig` is a "
        "signature by one of them. Needs the extra `signature`.",
    )
