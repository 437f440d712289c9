"""Checkpoints: written atomically, read without executing code, bound to their recipe.

No random state is stored: all random numbers of epoch e depend only on (seed, stream, e), so a run continued from a
checkpoint makes the same steps as one that was never interrupted.
"""

import os
from pathlib import Path
from typing import Any

import torch

from edgemeta.toolchain.errors import CheckpointError


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists and mappings of them) to `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def load_checkpoint(path: Path, digest: str) -> dict[str, Any] | None:
    """The state at `path`, or None if there is no such file.

    digest: required recipe digest, stored under "digest". Raises CheckpointError for a damaged file or another recipe.
    """
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged checkpoint can fail in any way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: not a readable checkpoint ({reason})") from error
    if not isinstance(state, dict) or "digest" not in state:
        raise CheckpointError(f"{path}: not a checkpoint of this program, expected a digest in it")
    if state["digest"] != digest:
        raise CheckpointError(
            f"{path}: made with another recipe or seed (digest {str(state['digest'])[:12]}), "
            f"expected {digest[:12]}; use another run folder or the recipe that the run was started with"
        )
    return state
