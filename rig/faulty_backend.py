"""The `cpu` backend with injected errors, found by a service like any third-party backend.

`install(folder)` installs its entry point for services started with that folder on their PYTHONPATH. Models whose name
ends in `-late` fail on a live frame during the trial; with the option `leak`, every session leaks so many bytes.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, Batch, Outputs, Probe, Session
from edgemeta.plugins.cpu.backend import BACKEND as CPU

NAME = "faulty"
LATE = "-late"
FAILS_AFTER = 10 + 6 + 8
"""Runs of a `-late` model: warm-up, self-test, shadow run of 5 frames, and 3 of the trial."""

_leaked: list[bytes] = []


class _Session:
    """A session of `cpu` that fails late, or leaks memory."""

    def __init__(self, session: Session, runs_left: float, leak: int) -> None:
        self._session = session
        self._runs_left = runs_left
        self._leak = leak

    def run(self, batch: Batch) -> Outputs:
        """Run, or fail."""
        self._runs_left -= 1
        if self._runs_left < 0:
            raise BackendError("injected error")
        return self._session.run(batch)

    def close(self) -> None:
        """Close, and leak memory if configured."""
        _leaked.extend([os.urandom(self._leak)] if self._leak else [])
        self._session.close()


class _Faulty:
    """The backend."""

    name = NAME

    def probe(self) -> Probe:
        """Available, but never selected by `auto`."""
        return Probe(True, "injects errors", 0)

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: every layer."""
        return None

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """Create a session of `cpu` with the injected errors."""
        leak = int(str(options.get("leak", 0)))
        runs_left = FAILS_AFTER if model.name.endswith(LATE) else float("inf")
        return _Session(CPU.compile(model, {}), runs_left, leak)


BACKEND = _Faulty()


def install(folder: Path) -> dict[str, str]:
    """Install the entry point into a folder; return the environment variables with which a service finds it."""
    record = folder / "faulty-1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty\nVersion: 1\n")
    (record / "entry_points.txt").write_text(f"[edgemeta.backends]\n{NAME} = rig.faulty_backend:BACKEND\n")
    return {"PYTHONPATH": str(folder)}
