"""Finds backends by name: our own from a table, others from the entry-point group `edgemeta.backends`.

A backend's module is imported only when the backend is asked for.
"""

import logging
import sys
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from edgemeta.plugins.api import Backend, BackendError, Probe

GROUP = "edgemeta.backends"
"""Entry-point group: each entry `name = "module:attribute"` gives one Backend."""

AUTO = "auto"

_BUILT_IN = {
    "reference": "edgemeta.plugins.reference.backend:BACKEND",
    "cpu": "edgemeta.plugins.cpu.backend:BACKEND",
    "cuda": "edgemeta.plugins.cuda.backend:BACKEND",
}

_log = logging.getLogger(__name__)


def names() -> tuple[str, ...]:
    """Names of all backends, ours first; a third party's entry of one of our names is left out."""
    return (*_BUILT_IN, *sorted(set(_third_parties()) - set(_BUILT_IN)))


def load(name: str) -> Backend:
    """Import a backend. Raises BackendError if the name is unknown or its module cannot be imported."""
    third_parties = _third_parties()
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name].split(":")
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
    """Ask every backend whether it can run here. One that cannot be imported is not available, with the reason."""
    probes = {}
    for name in names():
        try:
            probes[name] = load(name).probe()
        except BackendError as error:
            probes[name] = Probe(False, str(error))
    return probes


def choose(name: str) -> Backend:
    """Give the backend of that name or, for "auto", the available one with the greatest score; the log says why.

    Raises BackendError with the reason if it cannot run here; nothing else is taken in its place.
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
    _log.info("backend %s, the fastest available here: %s", best, probes[best].reason)
    for name, probe in probes.items():
        if not probe.available:
            _log.info("backend %s is not available: %s", name, probe.reason)
    return load(best)


def _third_parties() -> dict[str, EntryPoint]:
    return _entries(tuple(sys.path))


@lru_cache(maxsize=1)
def _entries(_path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Read the entry points of all packages on the path, once: it takes 15 ms, and a reload asks five times."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _checked(name: str, candidate: object) -> Backend:
    """Raise BackendError unless an entry point gave something with the contract's parts."""
    missing = [part for part in ("name", "probe", "compile") if not hasattr(candidate, part)]
    if missing:
        raise BackendError(f"backend {name}: its entry point gave an object without {', '.join(missing)}")
    backend: Backend = candidate  # type: ignore[assignment]  # what the protocol asks for was just looked up
    return backend


def _unknown(name: str) -> str:
    known = names()
    close = get_close_matches(name, known, 1)
    hint = f", did you mean {close[0]}?" if close else ""
    return f"unknown backend {name!r}{hint} (known: auto, {', '.join(known)})"
