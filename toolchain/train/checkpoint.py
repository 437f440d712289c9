"""Checkpoints: written atomically, read without executing code, bound to their recipe and their data.

No random state is stored: all random numbers of epoch e depend only on (seed, stream, e), so a run continued from a
checkpoint makes the same steps as one that was never interrupted.
"""

import hashlib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from edgemeta.model.atomic_write import atomic_file
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.train.workers import ALONE, Workers


@dataclass(frozen=True)
class RunIdentity:
    """What a checkpoint belongs to: SHA-256 (hex) of the recipe, and of the training data (`data_digest`)."""

    recipe: str
    data: str


def save_checkpoint(path: Path, identity: RunIdentity, state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists and mappings of them) to `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(path) as file:
        torch.save({**state, "digest": identity.recipe, "data": identity.data}, file)


def load_checkpoint(path: Path, identity: RunIdentity, workers: Workers = ALONE) -> dict[str, Any] | None:
    """The state at `path`, which the first worker reads, or None if there is no such file.

    Raises CheckpointError for a damaged file, and for one of another recipe or other data.
    """
    content = workers.from_first(lambda: _content(path))
    if content is None:
        return None
    try:
        state = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged checkpoint can fail in any way
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"{path}: not a readable checkpoint ({reason})") from error
    if not isinstance(state, dict) or "digest" not in state:
        raise CheckpointError(f"{path}: not a checkpoint of this program, expected a digest in it")
    _require_same(path, "another recipe or seed", state["digest"], identity.recipe, "the recipe")
    _require_same(path, "other training data", state.get("data", "none"), identity.data, "the data")
    return state


def weights_digest(network: nn.Module) -> str:
    """SHA-256 (hex) of all weights and buffers by name."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return digest.hexdigest()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}), expected a checkpoint") from error


def _require_same(path: Path, other: str, found: object, expected: str, needed: str) -> None:
    if found != expected:
        raise CheckpointError(
            f"{path}: made with {other} (digest {str(found)[:12]}), expected {expected[:12]}; use another run folder, "
            f"or {needed} that the run was started with, or start afresh with --fresh"
        )
