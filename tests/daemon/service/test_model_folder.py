"""What a command can choose: files in the folder, whatever else is there."""

import hashlib
import os
from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.service.model_folder import ModelFolder, choosable
from edgemeta.model.zoo import names


def config_of(folder: Path) -> Config:
    return Config.model_validate({"cameras": {"a": {"source": "synthetic://"}}, "swap": {"model_folder": str(folder)}})


def test_only_files_can_be_chosen_and_nothing_else_hides_a_change(tmp_path: Path) -> None:
    config, known = config_of(tmp_path), ModelFolder()
    (tmp_path / "gate.safetensors").write_bytes(b"one")
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder.safetensors").mkdir()
    os.mkfifo(tmp_path / "pipe.safetensors")
    assert choosable(config) == tuple(sorted({*names(), "gate"}))
    assert known.digest_of(config, "gate") == hashlib.sha256(b"one").hexdigest()
    assert [known.digest_of(config, name) for name in ("gone", "folder", "pipe", "other")] == [None] * 4
    before = known.state(config)
    (tmp_path / "gate.safetensors").write_bytes(b"other")
    assert known.state(config) != before
    assert known.digest_of(config, "gate") == hashlib.sha256(b"other").hexdigest()


def test_without_a_folder_nothing_can_be_chosen(tmp_path: Path) -> None:
    assert choosable(Config.model_validate({"cameras": {"a": {"source": "synthetic://"}}})) == ()
    assert choosable(config_of(tmp_path / "absent")) == tuple(sorted(names()))
