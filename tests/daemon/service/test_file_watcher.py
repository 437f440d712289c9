"""Files that change under a running service: detected when they are complete, whatever changed them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.daemon.service.file_watcher import FileWatcher


class Watched:
    """A watch that looks when the test says so."""

    def __init__(self, config: Path) -> None:
        self.calls = 0
        self.watch = FileWatcher(config, self._changed, lambda fault: None)

    def _changed(self) -> None:
        self.calls += 1

    def looks(self, times: int = 2) -> int:
        """Calls that so many looks bring."""
        before = self.calls
        for _ in range(times):
            self.watch.check()
        return self.calls - before


@pytest.fixture
def config(write_config: Callable[..., Path]) -> Path:
    return write_config()


@pytest.fixture
def watched(config: Path) -> Watched:
    return Watched(config)


def test_no_change_is_not_reported(watched: Watched, config: Path) -> None:
    assert watched.looks(3) == 0
    config.read_text()
    assert watched.looks(3) == 0


def test_a_file_written_in_place_counts_once_it_is_complete(watched: Watched, config: Path) -> None:
    text = config.read_text()
    with config.open("w") as file:
        for piece in (text[:20], text[20:40], text[40:] + "# more\n"):
            file.write(piece)
            file.flush()
            assert watched.looks(1) == 0
    assert watched.looks(1) == 1
    assert watched.looks(3) == 0


def test_an_editor_that_renames_a_new_file_into_place(watched: Watched, config: Path) -> None:
    new = config.with_suffix(".tmp")
    shutil.copyfile(config, new)
    new.replace(config)
    assert watched.looks() == 1


def test_an_editor_that_moves_the_old_file_away_first(watched: Watched, config: Path) -> None:
    config.rename(config.with_suffix(".bak"))
    assert watched.looks(5) == 0, "a file that is gone is no config"
    shutil.copyfile(config.with_suffix(".bak"), config)
    assert watched.looks() == 1


def test_a_link_that_gets_another_target_as_in_kubernetes(config: Path, tmp_path: Path) -> None:
    """`config.yaml` leads to `..data/config.yaml`, and `..data` to the folder that counts, exchanged by a rename."""
    for name in ("one", "two"):
        (tmp_path / "volume" / name).mkdir(parents=True)
        shutil.copyfile(config, tmp_path / "volume" / name / "config.yaml")
    volume = tmp_path / "volume"
    (volume / "..data").symlink_to("one")
    (volume / "config.yaml").symlink_to("..data/config.yaml")
    watched = Watched(volume / "config.yaml")
    assert watched.looks() == 0
    (volume / "..data_tmp").symlink_to("two")
    (volume / "..data_tmp").rename(volume / "..data")
    assert watched.looks() == 1


def test_a_model_file_that_becomes_another(watched: Watched, model_file: Path) -> None:
    content = model_file.read_bytes()
    with model_file.open("wb") as file:
        file.write(content[:100])
        file.flush()
        assert watched.looks(1) == 0
        file.write(content[100:])
    assert watched.looks(1) == 0
    assert watched.looks(1) == 1


def test_the_same_size_at_another_time_is_another_file(watched: Watched, model_file: Path) -> None:
    found = model_file.stat()
    os.utime(model_file, ns=(found.st_atime_ns, found.st_mtime_ns + 1))
    assert watched.looks() == 1


def test_a_model_that_the_config_names_before_it_exists(
    write_config: Callable[..., Path], model_file: Path, tmp_path: Path
) -> None:
    watched = Watched(write_config())
    write_config(model="better.safetensors")
    assert watched.looks() == 1
    assert watched.looks() == 0
    shutil.copyfile(model_file, tmp_path / "better.safetensors")
    assert watched.looks() == 1


def test_a_model_with_a_digest_is_watched_as_one_without(write_config: Callable[..., Path], model_file: Path) -> None:
    watched = Watched(write_config(model=f"{model_file.name}@sha256:{'0' * 64}"))
    model_file.touch()
    assert watched.looks() == 1
    write_config(model=f"{model_file.name}@sha256:12")
    assert watched.looks() == 1


def test_a_cameras_own_model_is_watched_and_signatures_where_keys_are_trusted(
    write_config: Callable[..., Path], model_file: Path, tmp_path: Path
) -> None:
    own = tmp_path / "own.safetensors"
    shutil.copyfile(model_file, own)
    watched = Watched(write_config(cameras={"front": {"source": "synthetic://", "model": str(own)}}))
    own.touch()
    assert watched.looks() == 1
    (tmp_path / "own.safetensors.sig").write_bytes(b"1")
    assert watched.looks() == 0
    keys = {"trust": {"public_key_files": ["maker.pub"]}}
    write_config(cameras={"front": {"source": "synthetic://", "model": str(own)}}, **keys)
    assert watched.looks() == 1
    (tmp_path / "own.safetensors.sig").write_bytes(b"2")
    assert watched.looks() == 1


def test_a_config_with_mistakes_is_reported_and_the_models_of_the_last_good_one_are_watched(
    watched: Watched, config: Path, model_file: Path
) -> None:
    config.write_text("cameras: [")
    assert watched.looks() == 1
    model_file.touch()
    assert watched.looks() == 1


def test_it_can_be_turned_off_and_on(write_config: Callable[..., Path]) -> None:
    watched = Watched(write_config(watch_files=False))
    write_config(watch_files=False, top_k=1)
    assert watched.looks(3) == 0
    write_config(watch_files=True, top_k=1)
    assert watched.looks() == 1


def test_a_file_read_meanwhile_is_not_reported(watched: Watched, config: Path) -> None:
    config.write_text(config.read_text() + "# more\n")
    assert watched.looks(1) == 0
    watched.watch.mark_current()
    assert watched.looks(3) == 0
    config.write_text(config.read_text() + "# and more\n")
    assert watched.looks() == 1


def test_what_the_service_writes_itself_is_not_reported_but_what_follows_is(
    watched: Watched, config: Path, model_file: Path
) -> None:
    model_file.write_bytes(model_file.read_bytes() + b"fetched")
    watched.watch.mark_written(model_file)
    assert watched.looks(3) == 0
    config.write_text(f"{config.read_text()}# and the config\n")
    watched.watch.mark_written(model_file)
    assert watched.looks() == 1
