"""The listing commands, and their errors for invalid model files."""

from pathlib import Path

import pytest

from edgemeta.model.file import save
from edgemeta.model.signature import verify
from edgemeta.model.tasks import MultiLabel
from edgemeta.model.zoo import find, names
from tests.tasks.detection.models import detection_model
from tests.tasks.models import vector_model

SHIPPED = "resnet8-cifar10"


def test_backends_are_listed_with_reasons(edgemeta_json) -> None:
    backends = edgemeta_json("backends")["backends"]
    assert backends["reference"]["available"] is True
    assert backends["cpu"]["available"] is True
    assert all(entry["reason"] for entry in backends.values())


def test_shipped_models_are_listed(edgemeta_json) -> None:
    assert edgemeta_json("model", "list")["models"] == list(names())
    assert SHIPPED in names()


def test_info_counts_resnet8(edgemeta_json) -> None:
    info = edgemeta_json("model", "info", SHIPPED)
    evidence = 16 + 32 + 64  # of the rule of rejection: a weight for each channel of three stages
    assert info["macs"] == 12_500_992 + 640 + evidence  # the convolutions' by MLPerf Tiny's count, and the dense layer
    assert info["parameters"] == 76_720 + 640 + evidence
    assert len(info["labels"]) == 10


def test_info_of_a_detection_has_decoding_levels_and_outputs(edgemeta, edgemeta_json, tmp_path: Path) -> None:
    save(detection_model("yolov3", score_threshold=0.3), tmp_path / "net")
    lines = edgemeta("model", "info", tmp_path / "net").stdout.splitlines()
    assert lines[0] == "detection: detection, 5 labels, input 64x48x3"
    assert lines[3:8] == [
        "decoding yolov3, box xywh",
        "objects from a score of 0.3 on, overlap up to 0.5, at most 100",
        "level 8x6, stride 8x8: boxes boxes0, classes classes0, objectness objectness0, anchors 10x14 23x27 37x58",
        "level 4x3, stride 16x16: boxes boxes1, classes classes1, objectness objectness1, anchors 10x14 23x27 37x58",
        "output boxes0: 8x6x12, 8 bits",
    ]
    info = edgemeta_json("model", "info", tmp_path / "net")
    assert (info["task"], info["task_settings"]["decoding"]) == ("detection", "yolov3")
    assert info["task_settings"]["levels"][1]["boxes"] == "boxes1"
    assert info["outputs"]["classes1"] == [4, 3, 15]
    assert len(info["labels"]) == 5


def test_info_of_several_labels_has_their_threshold(edgemeta, tmp_path: Path) -> None:
    save(vector_model(MultiLabel(tuple("abc"), 0.25), 3), tmp_path / "net")
    lines = edgemeta("model", "info", tmp_path / "net").stdout.splitlines()
    assert lines[0] == "v: multi-label, 3 labels, input 4x4x3"
    assert lines[3:5] == ["labels are present from a score of 0.25 on", "output vector: 1x1x3, 8 bits"]


def test_info_fits_a_terminal_of_80_columns(edgemeta) -> None:
    lines = edgemeta("model", "info", SHIPPED).stdout.splitlines()
    table = [line for line in lines if "MACs" in line or line.startswith("conv")]
    assert len(table) > 9
    assert max(map(len, table)) <= 80


@pytest.fixture
def no_models(tmp_path: Path) -> dict[str, Path]:
    whole = find(SHIPPED).read_bytes()
    contents = {"text": b"model: this is a text file\n", "empty": b"", "truncated": whole[: len(whole) // 2]}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: tmp_path / name for name in contents} | {"missing": tmp_path / "missing", "folder": tmp_path}


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        *(("info", name) for name in ("text", "empty", "truncated", "missing", "folder")),
        ("classify", "truncated"),
        ("bench", "truncated"),
    ],
)
def test_an_invalid_model_gets_one_sentence(
    edgemeta, one_sentence, no_models: dict[str, Path], tmp_path: Path, name: str, verb: str
) -> None:
    description = {"info": ("model", "info"), "classify": ("classify",), "bench": ("bench",)}[verb]
    rest = (tmp_path / "any.png",) if verb == "classify" else ()
    one_sentence(edgemeta(*description, no_models[name], *rest), str(no_models[name]))


def test_a_float_model_is_not_run_as_an_integer_one(edgemeta, one_sentence) -> None:
    one_sentence(edgemeta("bench", f"{SHIPPED}-float"), "float")


def test_a_model_is_signed_with_a_key_made_here(edgemeta_json, edgemeta, one_sentence, tmp_path: Path) -> None:
    model = tmp_path / "mine.safetensors"
    model.write_bytes(find(SHIPPED).read_bytes())
    key = tmp_path / "maker.pem"
    made = edgemeta_json("model", "key", str(key))
    assert made == {"private": str(key), "public": f"{key}.pub"}
    signed = edgemeta_json("model", "sign", str(model), "--key", str(key))
    assert signed["path"] == f"{model}.sig"
    assert verify(model.read_bytes(), model, [Path(made["public"])]) == Path(signed["path"]).read_bytes()
    again = edgemeta("model", "key", key)
    one_sentence(again)
    assert "maker.pem: cannot be written (File exists)" in again.stderr
    wrong = edgemeta("model", "sign", model, "--key", model)
    one_sentence(wrong)
    assert "expected a private key" in wrong.stderr


def test_a_model_is_written_with_another_name(edgemeta_json, edgemeta, one_sentence, tmp_path: Path) -> None:
    out = tmp_path / "yard.safetensors"
    made = edgemeta_json("model", "rename", SHIPPED, "yard", "--out", out)
    renamed, shipped = (edgemeta_json("model", "info", model) for model in (out, SHIPPED))
    assert renamed["name"] == made["name"] == "yard"
    assert renamed["layers"] == shipped["layers"]
    assert renamed["sha256"] == made["sha256"] != shipped["sha256"]
    assert edgemeta_json("model", "info", f"{out}@sha256:{made['sha256']}") == renamed
    one_sentence(edgemeta("model", "info", f"{out}@sha256:{shipped['sha256']}"), f"expected sha256 {shipped['sha256']}")
    one_sentence(edgemeta("model", "rename", SHIPPED, "", "--out", out), "name")


@pytest.mark.parametrize("by_path", [False, True])
def test_a_shipped_model_is_not_signed_in_the_installed_package(
    edgemeta, edgemeta_json, one_sentence, tmp_path: Path, by_path: bool
) -> None:
    """Once, the signature was written beside it, into the package."""
    edgemeta_json("model", "key", tmp_path / "k")
    shipped = find(SHIPPED)
    (tmp_path / "link").symlink_to(shipped.parent)
    named = tmp_path / "link" / shipped.name if by_path else SHIPPED
    refused = edgemeta("model", "sign", named, "--key", tmp_path / "k")
    one_sentence(refused, f"{shipped.name}: is a file of the installed package", "edgemeta model rename")
    assert not shipped.with_name(f"{shipped.name}.sig").exists()
    copy = tmp_path / "copy.safetensors"
    edgemeta_json("model", "rename", SHIPPED, SHIPPED, "--out", copy)
    edgemeta_json("model", "sign", copy, "--key", tmp_path / "k")
    assert verify(copy.read_bytes(), copy, [tmp_path / "k.pub"])


def test_an_invalid_model_is_not_signed(edgemeta, one_sentence, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no model")
    edgemeta("model", "key", str(tmp_path / "k"))
    refused = edgemeta("model", "sign", text, "--key", tmp_path / "k")
    one_sentence(refused)
    assert "is not a complete safetensors file" in refused.stderr
    assert not (tmp_path / "text.sig").exists()
