"""No command writes over what it reads, or where nobody asked it to."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMANDS = [
    ("import", "FILE", "--out", "FILE"),
    ("import", "net.onnx", "--out", "FILE", "--labels", "FILE"),
    ("quantize", "FILE", "--calibrate", "other", "--out", "FILE"),
    ("quantize", "FILE@sha256:" + "0" * 64, "--calibrate", "other", "--out", "FILE"),
    ("quantize", "net", "--calibrate", "FILE", "--out", "FILE"),
    ("model", "rename", "FILE", "name", "--out", "FILE"),
    ("model", "reject", "FILE", "--held-out", "data", "--out", "FILE"),
    ("model", "reject", "net", "--held-out", "data", "--out", "FILE", "--plot", "FILE"),
    ("model", "get", "visual-wake-words", "--from", "FILE", "--out", "FILE"),
    ("export", "FILE", "--onnx", "FILE"),
    ("teach", "pictures", "--backbone", "FILE", "--out", "FILE"),
    ("train", "--data", "FILE", "--folder", "run", "--out", "FILE"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: "-".join(command[:2]))
def test_an_output_that_is_an_input_is_refused(
    edgemeta: Callable[..., Any], tmp_path: Path, command: tuple[str]
) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("what is read")
    link.symlink_to(file)
    *words, last = [word.replace("FILE", str(file)) for word in command]
    for output in (last, str(link)):
        done = edgemeta(*words, output)
        assert done.returncode == 2, done.stderr
        assert "is an input, too, and would replace it" in done.stderr
    assert file.read_text() == "what is read"


@pytest.mark.parametrize(
    "command", [COMMANDS[0], COMMANDS[2], *COMMANDS[5:-1], ("scenes", "--images", "1", "--out", "FILE")], ids=" ".join
)
def test_an_output_s_folder_is_made_before_anything_is_read(
    edgemeta: Callable[..., Any], tmp_path: Path, command: tuple[str]
) -> None:
    file = tmp_path / "file"
    *words, _ = (word.replace("FILE", str(file)) for word in command)
    assert edgemeta(*words, tmp_path / "made" / "for" / "it").returncode != 2
    assert (tmp_path / "made" / "for").is_dir()
    done = edgemeta(*words, tmp_path)
    sentence = f"edgemeta: {tmp_path}: is a folder, expected the name of the file to write\n"
    assert (done.returncode, done.stderr) == (1, sentence)


def test_a_search_writes_only_where_it_was_told_to(edgemeta: Callable[..., Any], tmp_path: Path) -> None:
    config = tmp_path / "training.yaml"
    config.write_text("name: x\nnetwork: net\n")
    done = edgemeta("search", "--config", config)
    assert done.returncode == 2
    assert "Missing option '--folder'" in done.stderr
    done = edgemeta("search", "--config", config, "--folder", tmp_path)
    assert done.returncode != 0
    assert sorted(tmp_path.iterdir()) == [config]
