"""Settings of `import`: a YAML file, options, and which counts."""

from pathlib import Path
from typing import Any

import click
import pytest

from edgemeta.cli.import_settings import ImportSettings, labels_of, read_settings
from edgemeta.cli.main import edgemeta
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.pixels import Pixels

NETWORK = Path("net.onnx")


def test_without_anything_the_defaults_hold() -> None:
    settings = read_settings(NETWORK, None, {"mean": None})
    assert (settings.pixels(), settings.task_settings()) == ({}, TaskSettings())


def test_options_and_yaml_say_the_same(tmp_path: Path) -> None:
    options: dict[str, object] = {
        "mean": "1,2,3",
        "std": "255",
        "colour": "bgr",
        "crop": "letterbox",
        "fill": "114",
        "align": "corner",
        "size": "224x320",
        "labels": "coco",
        "task": "detection",
        "outputs": "a,b, c",
        "decoding": "ssd",
        "anchors": "10,14 23,27; 81,82.5",
        "strides": "8 16",
        "box_order": "yxhw",
        "point_layout": "xys",
        "point_unit": "fraction",
        "point_names": "nose, tail",
        "score_threshold": 0.25,
        "overlap_threshold": 0.6,
        "max_objects": 20,
        "name": "yard",
    }
    (tmp_path / "s.yaml").write_text(
        "mean: [1, 2, 3]\nstd: 255\ncolour: bgr\ncrop: letterbox\nfill: [114]\nalign: corner\nsize: 224x320\n"
        "labels: coco\ntask: detection\noutputs: [a, b, c]\ndecoding: ssd\n"
        "anchors:\n  - [[10, 14], [23, 27]]\n  - [[81, 82.5]]\nstrides: [8, [16, 16]]\nbox_order: yxhw\n"
        "point_layout: xys\npoint_unit: fraction\npoint_names: [nose, tail]\n"
        "score_threshold: 0.25\noverlap_threshold: 0.6\nmax_objects: 20\nname: yard\n"
    )
    settings = read_settings(NETWORK, None, options)
    assert set(options) == set(ImportSettings.model_fields)
    assert read_settings(NETWORK, tmp_path / "s.yaml", {}) == settings
    assert Pixels(**settings.pixels()) == Pixels((1, 2, 3), (255,), "bgr", "letterbox", (114,), "corner")
    assert settings.task_settings() == TaskSettings(
        "detection",
        COCO,
        ("a", "b", "c"),
        "ssd",
        (((10, 14), (23, 27)), ((81, 82.5),)),
        ((8, 8), (16, 16)),
        "yxhw",
        0.25,
        0.6,
        20,
        "xys",
        "fraction",
        ("nose", "tail"),
    )
    assert (settings.size, settings.name) == ((224, 320), "yard")


def test_an_option_counts_more_than_the_file_beside_the_network(tmp_path: Path) -> None:
    (tmp_path / "net.onnx.yaml").write_text("std: 255\nname: file\nlabels: names.txt\n")
    (tmp_path / "names.txt").write_text("cat\n\n dog \n")
    settings = read_settings(tmp_path / "net.onnx", None, {"name": "option", "std": None})
    assert (settings.std, settings.name) == ((255.0,), "option")
    assert settings.task_settings().labels == ("cat", "dog")  # beside the settings, not where the command runs


def test_every_mistake_of_the_file_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "colour: red\nmena: 3\nfill: 300\nanchors: wide\nlabels: 3\nsize: 3x\noutputs: [1]\nmean: x\nstrides: x\n"
    )
    with pytest.raises(ConfigError) as caught:
        read_settings(NETWORK, path, {})
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [f"{path}:{number}" for number in range(1, 10)]
    assert lines[0].endswith(
        "colour: found the text 'red', expected 'gray' or 1 to 4 of the letters r, g, b, y (gray), a (alpha)"
    )
    assert lines[1].endswith("mena: found an unknown key, expected `mean`")
    assert "expected a whole number 0 .. 255, or one for each channel" in lines[2]
    assert "width,height of each anchor" in lines[3]
    assert "expected `coco`, the name of a file" in lines[4]
    assert lines[5].endswith("size: found the text '3x', expected height x width, such as 224x224")


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("fill", "1,2,256", "found the text '1,2,256', expected a whole number 0 .. 255"),
        ("fill", "1.5", "expected a whole number 0 .. 255"),
        ("mean", "nothing", "expected a number, or one for each channel"),
        ("size", "0x4", "expected height x width"),
        ("anchors", "1,2,3", "expected width,height of each anchor"),
        ("anchors", "1,2;", "expected width,height of each anchor"),
        ("outputs", "a,,b", "expected names of tensors"),
        ("score_threshold", 1.0, "found 1.0, expected at most 0.999"),
        ("overlap_threshold", 0.0, "found 0.0, expected more than 0"),
        ("max_objects", 1001, "found 1001, expected at most 1000"),
    ],
)
def test_a_wrong_option_is_named(option: str, value: Any, said: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        read_settings(NETWORK, None, {option: value})
    assert caught.value.param_hint == f"--{option.replace('_', '-')}"
    assert said in caught.value.message


def test_labels_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ImportedFileError, match=r"gone\.txt: the labels cannot be read: No such file"):
        labels_of(str(tmp_path / "gone.txt"))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ImportedFileError, match="it is no text"):
        labels_of(str(tmp_path / "bytes"))
    assert len(set(labels_of("coco"))) == 80


def test_every_setting_is_an_option_and_has_a_row(repository: Path) -> None:
    command = edgemeta.get_command(click.Context(edgemeta), "import")
    assert command is not None
    options = {parameter.name for parameter in command.params}
    assert set(ImportSettings.model_fields) <= options
    page = (repository / "docs" / "import.md").read_text("utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    for name in ImportSettings.model_fields:
        assert any(f"`{name}`" in row for row in rows), name
