"""Backends are found by name, refused with their reason, and ranked by their probes."""

import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from edgemeta.model.graph import Model
from edgemeta.model.layers import Clamp, TensorType
from edgemeta.plugins import registry
from edgemeta.plugins.api import BackendError, Probe, Session
from tests.conformance.cases import CASES

THIRD_PARTY = """
from edgemeta.plugins.api import BackendError, Probe

class Slow:
    name = "slow"
    def probe(self):
        return Probe(False, "no such chip in this machine")
    def compile(self, model, options):
        raise BackendError("backend slow: not here")

BACKEND = Slow()
INCOMPLETE = object()
"""


@pytest.fixture
def third_party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed distribution with three entry points: a proper one, a wrong object, a module that is not there."""
    (tmp_path / "their_backend.py").write_text(THIRD_PARTY)
    metadata = tmp_path / "theirs-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[edgemeta.backends]\n"
        "slow = their_backend:BACKEND\n"
        "incomplete = their_backend:INCOMPLETE\n"
        "lost = no_such_module:BACKEND\n"
        "cpu = their_backend:BACKEND\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("their_backend", None)


def test_built_in_backends_are_first() -> None:
    assert registry.names()[:5] == ("reference", "cpu", "neon", "cuda", "fpga")
    assert registry.load("cpu").name == "cpu"
    assert registry.load("reference").name == "reference"
    assert registry.load("neon").name == "neon"
    assert registry.load("cuda").name == "cuda"


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(BackendError, match=r"unknown backend 'referense', did you mean reference\? \(known: auto, ref"):
        registry.load("referense")
    with pytest.raises(BackendError, match=r"^unknown backend 'tpu9' \(known: auto, reference, cpu"):
        registry.choose("tpu9")


def test_auto_selects_the_greatest_score_and_logs_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    probes = registry.probe_all()
    best = max(probes, key=lambda name: probes[name].score)
    with caplog.at_level(logging.INFO, registry.__name__):
        assert registry.choose("auto").name == best
    assert best in caplog.text
    assert probes[best].reason in caplog.text
    for name, probe in probes.items():
        assert probe.available or f"backend {name} is not available: {probe.reason}" in caplog.text


def test_nothing_is_imported_before_it_is_chosen() -> None:
    program = (
        "import sys, edgemeta.plugins.registry as r; r.names(); "
        "print([m for m in sys.modules if m.startswith('edgemeta.plugins.cpu') or m.startswith('edgemeta.kernels')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd="/")
    assert done.stdout.strip() == "[]"


@pytest.mark.usefixtures("third_party")
def test_entry_points_add_backends_but_never_replace_ours() -> None:
    assert registry.names() == ("reference", "cpu", "neon", "cuda", "fpga", "incomplete", "lost", "slow")
    assert registry.load("cpu").probe().available
    probes = registry.probe_all()
    assert probes["slow"] == Probe(False, "no such chip in this machine")
    assert not probes["lost"].available
    assert "no_such_module" in probes["lost"].reason


@pytest.mark.usefixtures("third_party")
def test_a_backend_from_before_supports_is_asked_to_run_every_layer() -> None:
    clamp = Clamp("clamp", "input", TensorType((1, 1, 1)), 0, 1)
    slow = registry.load("slow")
    assert slow.supports(clamp, [clamp.output]) is None
    assert (slow.name, slow.probe()) == ("slow", Probe(False, "no such chip in this machine"))
    with pytest.raises(BackendError, match=r"^backend slow: not here$"):
        slow.compile(CASES[0].model, {})


@pytest.mark.usefixtures("third_party")
def test_a_named_backend_that_cannot_run_is_refused_with_its_reason() -> None:
    with pytest.raises(BackendError, match="backend slow is not available: no such chip in this machine"):
        registry.choose("slow")
    with pytest.raises(BackendError, match="backend lost: no_such_module:BACKEND cannot be imported"):
        registry.choose("lost")
    with pytest.raises(BackendError, match="backend incomplete: the object of its entry point has no name, probe"):
        registry.choose("incomplete")


class Unavailable:
    """A backend whose machine part is missing."""

    name = "unavailable"

    def probe(self) -> Probe:
        return Probe(False, "nothing here")

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        raise BackendError("backend unavailable: nothing here")


BACKEND = Unavailable()


def test_auto_without_any_backend_reports_every_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "only_backend", sys.modules[__name__])
    monkeypatch.setattr(registry, "BUILT_IN", {"unavailable": "only_backend:BACKEND"})
    with pytest.raises(BackendError, match="no backend is available: unavailable: nothing here"):
        registry.choose("auto")
