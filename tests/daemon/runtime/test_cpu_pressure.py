"""The kernel's figure of how long tasks waited for a processor."""

from pathlib import Path

import pytest

from edgemeta.daemon.runtime import cpu_pressure


def test_the_total_of_some_tasks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu"
    monkeypatch.setattr(cpu_pressure, "PRESSURE", file)
    assert cpu_pressure.cpu_stalled() is None
    file.write_text("some avg10=0.02 avg60=0.00 avg300=0.00 total=12500000\nfull avg10=0.00 avg60=0.00 total=7\n")
    assert cpu_pressure.cpu_stalled() == 12.5


@pytest.mark.skipif(not cpu_pressure.PRESSURE.exists(), reason="this kernel measures no pressure")
def test_this_machine_has_waited() -> None:
    stalled = cpu_pressure.cpu_stalled()
    assert stalled is not None
    assert stalled >= 0
