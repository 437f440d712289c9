"""A condition changes only after it has held for a while."""

from types import SimpleNamespace

import pytest

from edgemeta.daemon.runtime import debounce
from edgemeta.daemon.runtime.debounce import Debounced


def test_what_lasts_changes_it_and_what_flaps_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(at=0.0, monotonic=lambda: clock.at)
    monkeypatch.setattr(debounce, "time", clock)
    problem = Debounced(False, rises=3.0, falls=1.0)
    seen = []
    for second in range(40):
        clock.at = float(second)
        # 0 to 19: two seconds of each four; 20 to 29: all the time; then never
        seen.append(problem.set(second % 4 < 2 if second < 20 else second < 30))
    assert [second for second, changed in enumerate(seen) if changed] == [23, 31]
    assert not problem.value


def test_without_patience_it_follows_at_once() -> None:
    ready = Debounced(False, rises=0.0, falls=3600.0)
    assert ready.set(True)
    assert ready.value
    assert not ready.set(False)
    assert ready.value
