"""The pictures on disk: what is listed, added, thrown away and renamed, also beside other programs."""

import os
import time
import unicodedata
from datetime import datetime, timezone
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import (
    ABANDONED_AFTER,
    LONGEST,
    NOTE_WITHIN,
    RULE,
    PictureFolder,
    checked_label,
    noted,
    region_in,
    time_of,
)

WHOLE = (0.0, 0.0, 1.0, 1.0)
NOON = datetime(2026, 11, 22, 12, 0, 0, 250_000, timezone.utc)


@pytest.fixture
def folder(tmp_path: Path) -> PictureFolder:
    return PictureFolder(tmp_path / "collected" / "front", WHOLE)


def add(folder: PictureFolder, label: str, number: int = 1) -> None:
    name = folder.prepare(label)
    for _ in range(number):
        folder.add(name, "front", NOON, b"jpeg")


def test_nothing_was_collected_yet(folder: PictureFolder) -> None:
    assert folder.labels() == []
    assert folder.pictures("open") == ()
    assert folder.all() == {}
    assert not folder.folder.exists()


def test_pictures_of_one_time_get_names_of_their_own(folder: PictureFolder) -> None:
    add(folder, "open", 3)
    names = [picture.name for picture in folder.pictures("open")]
    assert names == [f"20261122T120000.{ms}Z-front.jpg" for ms in (250, 251, 252)]
    assert time_of(folder.pictures("open")[0]) == "2026-11-22T12:00:00.250Z"
    assert len({picture.id for picture in folder.pictures("open")}) == 3


def test_what_is_found_is_the_same_after_a_restart(folder: PictureFolder) -> None:
    add(folder, "open", 2)
    add(folder, "closed")
    again = PictureFolder(folder.folder, WHOLE)
    assert again.all() == folder.all()
    assert list(again.all()) == ["closed", "open"]


def test_only_pictures_in_folders_count(folder: PictureFolder, tmp_path: Path) -> None:
    add(folder, "open")
    (folder.folder / "loose.jpg").write_bytes(b"")
    (folder.folder / ".hidden").mkdir()
    (folder.folder / ".hidden" / "a.jpg").write_bytes(b"")
    (folder.folder / "elsewhere").symlink_to(tmp_path)
    (folder.folder / "open" / "link.jpg").symlink_to("/etc/passwd")
    (folder.folder / "open" / "notes.txt").write_text("")
    (folder.folder / "open" / ".part.jpg").write_bytes(b"")
    assert folder.labels() == ["open"]
    assert len(folder.pictures("open")) == 1


def test_what_another_program_adds_and_deletes_is_seen(folder: PictureFolder) -> None:
    add(folder, "open")
    time.sleep(0.12)  # the listing counts as settled
    assert len(folder.pictures("open")) == 1
    other = folder.folder / "open" / "by hand.PNG"
    other.write_bytes(b"png")
    assert [picture.size for picture in folder.pictures("open")][1] == 3
    other.unlink()
    assert len(folder.pictures("open")) == 1


def test_pictures_are_thrown_away_and_an_empty_label_with_them(folder: PictureFolder) -> None:
    add(folder, "open", 3)
    first, *others = folder.pictures("open")
    assert folder.discard(folder.find([first.id, "0" * 16])) == 1
    assert folder.pictures("open") == tuple(others)
    folder.discard(others)
    folder.discard(others)
    assert folder.labels() == []


def test_a_label_is_renamed_to_one_that_does_not_exist(folder: PictureFolder) -> None:
    add(folder, "open", 2)
    add(folder, "closed")
    assert folder.rename("open", " ajar ") == "ajar"
    assert {label: len(found) for label, found in folder.all().items()} == {"ajar": 2, "closed": 1}
    for new, reason in (("closed", "exists already"), ("../x", "expected 1 to"), ("CLOSED", "only in case")):
        with pytest.raises(CollectError, match=reason):
            folder.rename("ajar", new)
    with pytest.raises(CollectError, match="there is no label 'open'"):
        folder.rename("open", "other")
    assert folder.rename("ajar", "Ajar") == "Ajar"


def test_pictures_of_another_region_are_not_mixed(folder: PictureFolder) -> None:
    add(folder, "open")
    moved = PictureFolder(folder.folder, (0.5, 0.0, 0.5, 1.0))
    with pytest.raises(CollectError, match=r"are of another region of the frame .*throw them away"):
        moved.prepare("open")
    assert folder.prepare("open") == "open"
    moved.discard(moved.pictures("open"))
    assert moved.prepare("open") == "open"
    add(moved, "open")
    with pytest.raises(CollectError, match=r"\(0.5, 0, 0.5, 1; now 0, 0, 1, 1\)"):
        folder.prepare("open")


def test_a_note_leaves_the_picture_as_it_is_and_pictures_from_elsewhere_have_none(folder: PictureFolder) -> None:
    jpeg = cv2.imencode(".jpg", np.full((8, 8, 3), 90, np.uint8))[1].tobytes()
    region = (0.1, 1e-9, 1 / 3, 0.5)
    made = noted(jpeg, region)
    assert region_in(made[:NOTE_WITHIN]) == region
    assert np.array_equal(*(cv2.imdecode(np.frombuffer(each, np.uint8), 1) for each in (jpeg, made)))
    for other in (jpeg, b"", b"\xff\xd8\xff\xfe\x00\x20edgemeta region [1, 2]", b"\x89PNG"):
        assert region_in(other) is None
    (folder.folder / "open").mkdir(parents=True)
    (folder.folder / "open" / "phone.jpg").write_bytes(jpeg)
    assert folder.prepare("open") == "open"


def test_a_label_without_a_picture_leaves_no_folder(folder: PictureFolder) -> None:
    """`edgemeta teach` refuses a label without pictures."""
    assert folder.prepare("open") == "open"
    assert folder.labels() == []


def test_leftovers_of_a_killed_program_are_removed(folder: PictureFolder) -> None:
    add(folder, "open")
    old, new = (folder.folder / "open" / name for name in (".old.part", ".new.part"))
    for path in (old, new):
        path.write_bytes(b"half")
    past = time.time() - ABANDONED_AFTER - 1
    os.utime(old, (past, past))
    folder.prepare("open")
    assert (old.exists(), new.exists()) == (False, True)


def test_a_disk_that_refuses_is_one_sentence(folder: PictureFolder, tmp_path: Path) -> None:
    (tmp_path / "collected").write_text("a file in its place")
    for call in (lambda: folder.prepare("open"), folder.labels, lambda: folder.add("open", "front", NOON, b"")):
        with pytest.raises(CollectError, match=r"not a directory|file exists"):
            call()


def test_pictures_are_private(folder: PictureFolder) -> None:
    add(folder, "open")
    assert folder.folder.stat().st_mode & 0o777 == 0o700
    (file,) = (folder.folder / "open").glob("*.jpg")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only the administrator gives files away")
def test_what_the_administrator_collects_belongs_to_the_service(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 4321, 4321)
    folder = PictureFolder(state / "collected-test" / "front", WHOLE)
    add(folder, "open")
    assert {path.stat().st_uid for path in state.rglob("*")} == {4321}


@pytest.mark.parametrize(
    "text", ["open", "gate open", "Tür zu", "門が開いている", "50 %", "a.b", "🚗", "unknown", "con"]
)
def test_ordinary_labels_stay_as_they_are(text: str) -> None:
    assert checked_label(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ".", "..", "...", ".hidden", "end.", "../x", "a/b", "/etc", "a\\b", "C:", "a\0b", "a\nb", "\t"),
        *("\u202eabc", "a\u200bb", "\ud800", "a" * (LONGEST + 1), "a" * 200, "*", "what?", '"x"', "<x>", "a|b"),
    ],
)
def test_others_are_refused_with_the_rule(text: str) -> None:
    with pytest.raises(CollectError) as caught:
        checked_label(text)
    assert RULE in str(caught.value)
    assert str(caught.value).isprintable()


def test_both_ways_to_write_a_letter_are_one_label() -> None:
    decomposed = unicodedata.normalize("NFD", "Tür")
    assert decomposed != "Tür"
    assert checked_label(decomposed, ["Tür"]) == "Tür"


def test_blanks_at_the_ends_do_not_count() -> None:
    assert checked_label(" gate open ") == "gate open"


@pytest.mark.parametrize(("text", "existing"), [("Open", "open"), ("STRASSE", "straße"), ("ÄRGER", "ärger")])
def test_a_label_that_differs_only_in_case_is_refused(text: str, existing: str) -> None:
    with pytest.raises(CollectError, match="only in case"):
        checked_label(text, ["other", existing])
    assert checked_label(existing, [existing]) == existing


@given(st.text(max_size=80))
def test_whatever_is_accepted_is_one_folder_in_the_folder(text: str) -> None:
    try:
        label = checked_label(text)
    except CollectError:
        return
    assert (Path("/pictures") / label).parent == Path("/pictures")
    assert (Path("/pictures") / label).name == label
    assert len(label.encode()) <= 255
    assert label == checked_label(label)
