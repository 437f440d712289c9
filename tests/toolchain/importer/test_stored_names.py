"""Names of labels that exporters write beside a network."""

import io
import json
import zipfile

import pytest

from edgemeta.toolchain.importer.stored_names import StoredNames, of_archive, of_metadata


def archive(**files: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        for name, text in files.items():
            opened.writestr(name.replace("__", "."), text)
    return b"a network of some bytes" + made.getvalue()


NAMES = {"names": {"0": "cat", "1": "dog"}, "imgsz": [320, 640], "task": "detect"}


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (archive(temp_meta__txt=str(NAMES)), StoredNames(("cat", "dog"), (320, 640))),
        (archive(metadata__json=json.dumps(NAMES)), StoredNames(("cat", "dog"), (320, 640))),
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


@pytest.mark.parametrize(
    "names", ["{0: 'a', 2: 'b'}", "{0: 1}", "[]", "nothing", "__import__('os')", "[" * 9999, "{0: ' '}", None], ids=str
)
def test_names_that_are_no_list_are_left_out(names: str | None) -> None:
    assert of_metadata({"names": names, "imgsz": "[0, 5]"}) == StoredNames()
