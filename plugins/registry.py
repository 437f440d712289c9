"""Finds backends by name: built-in ones from a table, others from the entry-point group `edgemeta.backends`.

The module of a backend is imported only when the backend is requested.
"""

import logging
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import Backend, BackendError, Probe

GROUP = "edgemeta.backends"
"""Entry-point group: each entry `name = "module:attribute"` refers to one Backend."""

REQUIRED = ("name", "probe", "compile")
"""What the object of an entry point must have; `supports` came later."""

AUTO = "auto"

BUILT_IN = {
    "reference": "edgemeta.plugins.reference.backend:BACKEND",
    "cpu": "edgemeta.plugins.cpu.backend:BACKEND",
    "neon": "edgemeta.plugins.neon.backend:BACKEND",
    "cuda": "edgemeta.plugins.cuda.backend:BACKEND",
    "fpga": "edgemeta.plugins.fpga.backend:BACKEND",
}

_log = logging.getLogger(__name__)


def names() -> tuple[str, ...]:
    """Names of all backends, built-in ones first; an entry point with a built-in name is ignored."""
    return (*BUILT_IN, *sorted(set(_third_parties()) - set(BUILT_IN)))


def load(name: str) -> Backend:
    """Import a backend. Raises BackendError if the name is unknown or its module cannot be imported."""
    third_parties = _third_parties()
    if name in BUILT_IN:
        module, attribute = BUILT_IN[name].split(":")
        backend: Backend = getattr(import_module(module), attribute)
        return backend
    if name not in third_parties:
        raise BackendError(_unknown(name))
    entry = third_parties[name]
    try:
        return _checked(name, entry.load())
    except (ImportError, AttributeError) as error:
        raise BackendError(f"backend {name}: {entry.value} cannot be imported: {error}") from error


def probe_all() -> dict[str, Probe]:
    """Probe every backend. One that cannot be imported is not available, with the reason."""
    probes = {}
    for name in names():
        try:
            probes[name] = load(name).probe()
        except BackendError as error:
            probes[name] = Probe(False, str(error))
    return probes


def choose(name: str) -> Backend:
    """Load the backend of that name or, for "auto", the available one with the greatest score; logs the choice.

    Raises BackendError with the reason if it is not available; there is no fallback to another backend.
    """
    if name != AUTO:
        backend = load(name)
        probe = backend.probe()
        if not probe.available:
            raise BackendError(f"backend {name} is not available: {probe.reason}")
        return backend
    probes = probe_all()
    available = [name for name in probes if probes[name].available]
    if not available:
        reasons = "; ".join(f"{name}: {probe.reason}" for name, probe in probes.items())
        raise BackendError(f"no backend is available: {reasons}")
    best = max(available, key=lambda candidate: probes[candidate].score)
    _log.info("backend %s selected as the fastest available: %s", best, probes[best].reason)
    for name, probe in probes.items():
        if not probe.available:
            _log.info("backend %s is not available: %s", name, probe.reason)
    return load(best)


def _third_parties() -> dict[str, EntryPoint]:
    return _entries(tuple(sys.path))


@lru_cache(maxsize=1)
def _entries(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Entry points of all packages on the path, read once: it takes 15 ms, and a reload needs them five times."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _checked(name: str, candidate: object) -> Backend:
    """Raise BackendError unless the object of an entry point has the attributes of a Backend."""
    missing = [part for part in REQUIRED if not hasattr(candidate, part)]
    if missing:
        raise BackendError(f"backend {name}: the object of its entry point has no {', '.join(missing)}")
    backend: Backend = candidate  # type: ignore[assignment]  # the attributes of the protocol were just checked
    return backend if hasattr(candidate, "supports") else _OlderBackend(backend)


class _OlderBackend:
    """A backend of another package from before `Backend.supports`: it is asked to run every layer."""

    def __init__(self, backend: Backend) -> None:
        self.name = backend.name
        self.probe = backend.probe
        self.compile = backend.compile

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: every layer."""
        return None


def _unknown(name: str) -> str:
    known = names()
    close = get_close_matches(name, known, 1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"unknown backend {name!r}{hint} (known: auto, {', '.join(known)})"
