"""Names of labels that exporters write beside a network."""

import io
import json
import zipfile
from dataclasses import replace

import pytest

from edgemeta.model.tasks import Classification, Detection, ObjectPoints
from edgemeta.toolchain.importer.stored_names import StoredNames, of_archive, of_metadata


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        for name, text in files.items():
            opened.writestr(name.replace("__", "."), text)
    return b"a network of some bytes" + made.getvalue()


NAMES = {"names": {"0": "cat", "1": "dog"}, "imgsz": [320, 640], "task": "detect", "stride": 32}


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (archive(temp_meta__txt=str(NAMES)), StoredNames(("cat", "dog"), (320, 640), "detect", 32)),
        (archive(metadata__json=json.dumps(NAMES)), StoredNames(("cat", "dog"), (320, 640), "detect", 32)),
        (archive(labels__txt="cat\ndog\n\ncat\n"), StoredNames(("cat", "dog", "cat"))),
        (archive(labels_en__txt="cat\n", labels_de__txt="Katze\n"), StoredNames()),
        (archive(readme__txt="cat\ndog\n"), StoredNames()),
        (archive(labels__txt="cat\n")[:-9], StoredNames()),
        (b"no archive", StoredNames()),
    ],
    ids=["ultralytics", "ultralytics, json", "tflite support", "two languages", "a text", "damaged", "none"],
)
def test_names_are_read_from_the_archive_behind_a_network(data: bytes, wanted: StoredNames) -> None:
    assert of_archive(data) == wanted


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_list_whose_compression_is_damaged_is_left_out(compression: int) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as opened:
        opened.writestr("labels.txt", "cat\ndog\n" * 20)
    whole = made.getvalue()
    begin = 30 + len("labels.txt")
    for place in range(begin, begin + 16):
        of_archive(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])


@pytest.mark.parametrize(
    "names", ["{0: 'a', 2: 'b'}", "{0: 1}", "[]", "nothing", "__import__('os')", "[" * 9999, "{0: ' '}", None], ids=str
)
def test_names_that_are_no_list_are_left_out(names: str | None) -> None:
    assert of_metadata({"names": names, "imgsz": "[0, 5]", "task": 5, "stride": "-1", "kpt_names": 3}) == StoredNames()


def test_points_have_the_names_of_the_first_label() -> None:
    points = "{0: ['nose', 'left eye'], 1: ['nose', 'right eye']}"
    assert of_metadata({"task": "pose", "kpt_names": points}) == StoredNames(task="pose", points=("nose", "left eye"))


def test_what_a_file_says_wrongly_is_said() -> None:
    stored = StoredNames(size=(320, 640), task="pose", stride=32)
    detection = Detection(("a",), "cells", ())
    assert list(stored.contradictions((64, 64), detection, 16.0)) == [
        "the file says that its images are 320x640, its network takes 64x64",
        "the file says that its task is pose, no points were recognized",
        "the file says a stride of 32, its coarsest grid has 16",
    ]
    assert list(stored.contradictions((320, 640), Classification(("a", "b")), None)) == [
        "the file says that its task is pose, what was recognized is classification"
    ]
    posed = replace(detection, extras=ObjectPoints(("nose",)))
    assert not list(stored.contradictions((320, 640), posed, 32.0))
    assert not list(StoredNames().contradictions((1, 1), detection, 8.0))
