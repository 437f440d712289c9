"""Small files that users name: regular, bounded, and a sentence for all others."""

import os
from pathlib import Path

import pytest

from edgemeta.model.small_file import FileError, exists, is_file, is_folder, read_small_file


def test_a_regular_file_up_to_its_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_small_file(file, 5) == b"12345"
    with pytest.raises(FileError, match=r"file has more than 4 bytes"):
        read_small_file(file, 4)


def test_what_is_no_regular_file_is_said_and_no_descriptor_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for path, found in {
        tmp_path: "is a folder, expected a regular file",
        tmp_path / "pipe": "is a pipe, expected a regular file",
        Path("/dev/zero"): "is a device, expected a regular file",
        tmp_path / "none": "cannot be read: No such file or directory",
        tmp_path / ("a" * 300): "cannot be read: File name too long",
        tmp_path / "loop": "cannot be read: Too many levels of symbolic links",
        "a\0b": "cannot be read: a NUL character in its name",
    }.items():
        with pytest.raises(FileError) as error:
            read_small_file(path, 10)
        assert error.value.reason == found
        assert len(str(error.value)) < 400
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("path", ["a" * 300, "a\0b", "/proc/self/none"])
def test_a_path_that_cannot_be_is_not_there(path: str) -> None:
    assert not exists(path)
    assert not is_file(path)
    assert not is_folder(path)
