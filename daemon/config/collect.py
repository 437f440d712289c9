"""Config of collecting labelled pictures, and of teaching a network by them."""

from typing import Annotated

from pydantic import Field

from edgemeta.daemon.config.reloading import Applies
from edgemeta.daemon.config.section import PathText, Seconds, Section


class CollectConfig(Section):
    """Where collected pictures are kept, and how many."""

    folder: PathText | None = Field(
        default=None,
        description="Folder of the collected pictures, `CAMERA/LABEL/TIME-CAMERA.jpg`; null is `collected-<device>` in "
        "`data_folder`.",
    )
    max_pictures: Annotated[int, Applies.AT_ONCE] = Field(
        default=2000, ge=1, le=1_000_000, description="Most pictures in the folder; then collecting stops and says so."
    )
    max_mb: Annotated[int, Applies.AT_ONCE] = Field(
        default=500,
        ge=1,
        le=1_000_000,
        description="Most megabytes (10^6 bytes) of pictures in the folder; then collecting stops and says so.",
    )
    max_fps: Annotated[float, Applies.AT_ONCE] = Field(
        default=2.0,
        ge=0.01,
        le=30,
        allow_inf_nan=False,
        description="Most pictures of a camera per second while its frames are collected.",
    )


class TeachConfig(Section):
    """Limits of teaching from the live page: it runs in a process of its own, with the lowest priority."""

    backbone: Annotated[str | None, Applies.AT_ONCE] = Field(
        default=None,
        min_length=1,
        description="Name or path of the model whose features are used; null is `edgemeta teach`'s own choice.",
    )
    timeout: Annotated[Seconds, Applies.AT_ONCE] = Field(
        default=600.0, description="Seconds after which teaching is ended."
    )
    max_memory_mb: Annotated[int, Applies.AT_ONCE] = Field(
        default=1024,
        ge=128,
        le=1_000_000,
        description="Most megabytes of memory (10^6 bytes of data) that teaching may take.",
    )
