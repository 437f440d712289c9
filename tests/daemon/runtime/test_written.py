"""The kernel's account of a thread."""

from pathlib import Path

import pytest

from edgemeta.daemon.runtime import written


def test_bytes_are_those_of_the_kernels_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert written.written_bytes() >= 0
    monkeypatch.setattr(written, "ACCOUNT", tmp_path / "io")
    assert written.written_bytes() == 0
    (tmp_path / "io").write_text("rchar: 5\nwchar: 7\nread_bytes: 0\nwrite_bytes: 8192\ncancelled_write_bytes: 1\n")
    assert written.written_bytes() == 8192
