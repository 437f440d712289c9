"""A file is replaced whole or not at all."""

from pathlib import Path
from typing import BinaryIO

import pytest

from edgemeta.model.atomic_write import atomic_file, prepare_output, write_atomically
from edgemeta.model.errors import EdgemetaError


def test_the_new_content_is_there_at_the_end_only(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomically(target, b"old", 0o600)
    with atomic_file(target) as file:
        file.write(b"new")
        file.flush()
        assert target.read_bytes() == b"old"
        assert Path(file.name).name.startswith(".file.")
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [target]


def fill(file: BinaryIO) -> None:
    file.write(b"half")
    raise OSError("disk full")


def test_a_failure_leaves_the_old_content_alone(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with pytest.raises(OSError, match="disk full"), atomic_file(target) as file:
        fill(file)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_an_output_must_be_writable(tmp_path: Path) -> None:
    old = tmp_path / "old.safetensors"
    old.write_bytes(b"old")
    prepare_output(old)
    prepare_output(tmp_path / "new.safetensors")
    assert old.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [old]
    prepare_output(tmp_path / "a" / "b" / "new.safetensors")
    assert list((tmp_path / "a").rglob("*")) == [tmp_path / "a" / "b"]
    with pytest.raises(EdgemetaError, match="is a folder, expected the name of the file to write"):
        prepare_output(tmp_path)
    with pytest.raises(EdgemetaError, match=r"cannot be written \(File name too long\)"):
        prepare_output(tmp_path / ("m" * 300))
    with pytest.raises(EdgemetaError, match=r"old.safetensors/new: cannot be written \(File exists\)"):
        prepare_output(old / "new")
