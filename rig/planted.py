"""A backend that is the `cpu` one, but for faults that are planted: found by a service as any third party's is.

`installed(folder)` puts it where a service started with that folder on its PYTHONPATH finds it. Models whose name ends
in `-late` fail on a live frame after the exchange; with the option `leak`, every session leaves so many bytes behind.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from edgemeta.model.graph import Model
from edgemeta.plugins.api import BackendError, Batch, Logits, Probe, Session
from edgemeta.plugins.cpu.backend import BACKEND as CPU

NAME = "planted"
LATE = "-late"
FAILS_AFTER = 10 + 6 + 8
"""Runs of a `-late` model: warm-up, self-test, shadow run of 5 frames, and 3 of the trial."""

_kept: list[bytes] = []


class _Session:
    """A session of `cpu` that fails late, or leaks."""

    def __init__(self, session: Session, left: float, leak: int) -> None:
        self._session = session
        self._left = left
        self._leak = leak

    def run(self, batch: Batch) -> Logits:
        """Run, or fail."""
        self._left -= 1
        if self._left < 0:
            raise BackendError("planted: this frame fails")
        return self._session.run(batch)

    def close(self) -> None:
        """Close, and leave something behind where that is planted."""
        _kept.extend([os.urandom(self._leak)] if self._leak else [])
        self._session.close()


class _Planted:
    """The backend."""

    name = NAME

    def probe(self) -> Probe:
        """Never taken by itself."""
        return Probe(True, "faults are planted here", 0)

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """Make a session of `cpu` with its faults."""
        leak = int(str(options.get("leak", 0)))
        left = FAILS_AFTER if model.name.endswith(LATE) else float("inf")
        return _Session(CPU.compile(model, {}), left, leak)


BACKEND = _Planted()


def installed(folder: Path) -> dict[str, str]:
    """Put the entry point into a folder; returns the environment in which a service finds it."""
    record = folder / "planted-1.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: planted\nVersion: 1\n")
    (record / "entry_points.txt").write_text(f"[edgemeta.backends]\n{NAME} = rig.planted:BACKEND\n")
    return {"PYTHONPATH": str(folder)}
