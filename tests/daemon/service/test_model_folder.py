"""What a command can choose: files in the folder, whatever else is there."""

import hashlib
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.service.model_folder import ModelFolder, choosable
from edgemeta.model.known.registry import known_networks
from edgemeta.model.zoo import find, names, shipped_digest


def config_of(folder: Path, updates: str = "folder") -> Config:
    swap = {"model_folder": str(folder), "updates": updates}
    return Config.model_validate({"cameras": {"a": {"source": "synthetic://"}}, "swap": swap})


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


def loaded(digest: str) -> Any:
    return SimpleNamespace(identity=SimpleNamespace(sha256=digest))


def test_only_what_the_registry_gave_before_has_an_update_of_it(tmp_path: Path) -> None:
    """Not what somebody has quantized: that has the name, another digest, and fits the camera better."""
    known, network = ModelFolder(), known_networks()["yunet"]
    earlier, own = network.earlier[0], "0" * 64
    address = str(tmp_path / "yunet.safetensors")

    def offered(used: str, updates: str = "known", address: str = address) -> tuple[str, bool]:
        found = known.available(config_of(tmp_path, updates), address, loaded(used))
        return found.sha256, found.is_newer

    assert offered(earlier) == offered(earlier, "download") == (network.made().digest, True)
    assert offered(earlier, "folder") == (earlier, False)
    assert offered(own) == (own, False)
    assert offered(earlier, address=f"{address}@sha256:{earlier}") == (earlier, False)
    assert offered(earlier, address=str(tmp_path / "faces.safetensors")) == (earlier, False)
    present = known.available(config_of(tmp_path, "known"), address, loaded(network.made().digest))
    assert (present.is_newer, present.network) == (False, network), "licence and accuracy of what runs"
    (tmp_path / "yunet.safetensors").write_bytes(b"mine")
    assert offered(earlier) == (hashlib.sha256(b"mine").hexdigest(), True), "somebody put it there"


def test_a_shipped_network_is_newer_after_an_upgrade_of_the_package(tmp_path: Path) -> None:
    known, shipped = ModelFolder(), shipped_digest(find("resnet8-cifar10"))
    (tmp_path / "resnet8-cifar10.safetensors").write_bytes(b"never used: the shipped one has the name")

    def offered(updates: str, address: str = "resnet8-cifar10", used: str = "0" * 64) -> tuple[str, bool]:
        found = known.available(config_of(tmp_path, updates), address, loaded(used))
        return found.sha256, found.is_newer

    assert shipped is not None
    assert offered("known") == (shipped, True)
    assert offered("known", used=shipped) == (shipped, False)
    assert offered("folder") == ("0" * 64, False)
    assert offered("known", f"resnet8-cifar10@sha256:{'0' * 64}") == ("0" * 64, False)


def test_networks_of_the_registry_can_be_chosen_where_they_may_be_fetched(tmp_path: Path) -> None:
    config = config_of(tmp_path, "download")
    assert {"yunet", "yolox-nano"} <= set(choosable(config, {"detection"}))
    assert not {"visual-wake-words", "visual-wake-words-float"} & set(choosable(config, {"detection"}))
    assert "visual-wake-words" in choosable(config, {"classification"})
    assert "yunet" not in choosable(config_of(tmp_path, "known"), {"detection"})
