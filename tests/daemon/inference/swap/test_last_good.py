"""The copies of the models that served last: whole or not at all, verified when they are read, none too many."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgemeta.daemon.inference.model_file import ModelFile, read_verified
from edgemeta.daemon.inference.swap.last_good import INDEX, LastGood, LastGoodError, LastGoodIndex, NoLastGoodError
from edgemeta.model.errors import ModelError
from edgemeta.model.file import save
from edgemeta.model.signature import make_key, sign, signature_of
from tests.daemon.conftest import colour_model


@pytest.fixture
def files(tmp_path: Path) -> list[ModelFile]:
    """Two models' files."""
    made = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.safetensors"
        save(replace(colour_model(), name=name), path)
        made.append(read_verified(str(path), []))
    return made


@pytest.fixture
def last_good(tmp_path: Path) -> LastGood:
    return LastGood(tmp_path / "state" / "models-test")


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_copy_outlives_its_file(last_good: LastGood, files: list[ModelFile]) -> None:
    one, two = files
    digest = one.model.digest
    last_good.write(LastGoodIndex(model=digest, cameras={"a": digest, "b": two.model.digest}), files)
    one.path.write_text("overwritten")
    addresses = last_good.addresses({"a", "b"})
    assert read_verified(addresses["a"], []).content == one.content
    assert read_verified(addresses["b"], []).model.name == "two"
    assert last_good.addresses({"new"}) == {"new": addresses["a"]}, "a camera of the service's model"


def test_there_is_no_last_good_model_at_first(last_good: LastGood) -> None:
    assert last_good.read() == LastGoodIndex()
    with pytest.raises(NoLastGoodError, match="there is no last good model for camera a"):
        last_good.addresses({"a"})


def test_only_what_is_in_use_is_kept(last_good: LastGood, files: list[ModelFile]) -> None:
    one, two = files
    last_good.write(LastGoodIndex(cameras={"a": one.model.digest}), [one])
    (last_good.folder / f".{one.model.digest}.safetensors.abc").touch()  # a service was killed while it wrote
    (last_good.folder / "somebody's own").touch()
    last_good.write(LastGoodIndex(cameras={"a": two.model.digest}), [two])
    assert names_in(last_good.folder) == {INDEX, f"{two.model.digest}.safetensors", "somebody's own"}


def test_a_damaged_copy_is_refused(last_good: LastGood, files: list[ModelFile]) -> None:
    last_good.write(LastGoodIndex(cameras={"a": files[0].model.digest}), files[:1])
    copy = last_good.folder / f"{files[0].model.digest}.safetensors"
    content = bytearray(copy.read_bytes())
    content[-1] ^= 1
    copy.write_bytes(content)
    with pytest.raises(ModelError, match=f"expected sha256 {files[0].model.digest}"):
        read_verified(last_good.addresses({"a"})["a"], [])


def test_the_signature_is_kept_with_it(last_good: LastGood, files: list[ModelFile], tmp_path: Path) -> None:
    key = tmp_path / "maker.pem"
    public = make_key(key)
    path = files[0].path
    signature_of(path).write_bytes(sign(path.read_bytes(), key))
    file = read_verified(str(path), [public])
    last_good.write(LastGoodIndex(cameras={"a": file.model.digest}), files[:1])  # kept without one at first
    last_good.write(LastGoodIndex(cameras={"a": file.model.digest}), [file])
    assert read_verified(last_good.addresses({"a"})["a"], [public]).signature == file.signature


@pytest.mark.parametrize("content", ["", "{", '{"version": 2}', '{"cameras": {"a": "../../etc/passwd"}}', "\0"])
def test_a_damaged_index_is_reported_and_nothing_is_read_from_it(
    last_good: LastGood, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    last_good.folder.mkdir(parents=True)
    (last_good.folder / INDEX).write_text(content)
    assert last_good.read() == LastGoodIndex()
    assert f"{INDEX} is damaged" in caplog.text


def test_a_folder_that_cannot_be_made_is_reported(files: list[ModelFile], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(LastGoodError, match="Not a directory"):
        LastGood(tmp_path / "state" / "models").write(LastGoodIndex(cameras={"a": files[0].model.digest}), files[:1])


def test_the_index_never_names_a_missing_copy(
    last_good: LastGood, files: list[ModelFile], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the copy is written leaves what was remembered before."""
    one, two = files
    last_good.write(LastGoodIndex(cameras={"a": one.model.digest}), [one])

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(LastGoodError, match="No space left on device"):
            last_good.write(LastGoodIndex(cameras={"a": two.model.digest}), [two])
    assert json.loads((last_good.folder / INDEX).read_text())["cameras"] == {"a": one.model.digest}
    assert names_in(last_good.folder) == {INDEX, f"{one.model.digest}.safetensors"}
    with pytest.raises(LastGoodError, match="No such file"):
        last_good.write(LastGoodIndex(cameras={"a": two.model.digest}), [])
