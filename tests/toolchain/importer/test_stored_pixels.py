"""What a float file says of its pixels: TFLite Support's NormalizationOptions, the keys of ONNX."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import onnx
import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import ImportResult, import_network
from edgemeta.toolchain.importer.tflite_metadata import stored_pixels
from tests.toolchain.importer.test_families import written
from tests.toolchain.importer.tflite_writer import TfliteNet

LABELS = TaskSettings(labels=("a", "b", "c"))
AS_THEY_ARE = "pixels are taken as they are, 0 to 255: nothing says otherwise but --mean and --std can"


def table(build: Any, fields: int, **places: int) -> int:
    """A table of these fields, by number: `f2` is a place, `b0` a byte."""
    build.StartObject(fields)
    for name, value in places.items():
        number = int(name[1:])
        if name[0] == "b":
            build.PrependInt8Slot(number, value, 0)
        else:
            build.PrependUOffsetTRelativeSlot(number, value, 0)
    return int(build.EndObject())


def vector(build: Any, places: Sequence[int]) -> int:
    build.StartVector(4, len(places), 4)
    for place in reversed(places):
        build.PrependUOffsetTRelative(place)
    return int(build.EndVector())


def metadata(mean: Sequence[float], deviation: Sequence[float]) -> bytes:
    """ModelMetadata of metadata_schema.fbs: thresholds of scores, which are no matter here, then the normalization."""
    build = flatbuffers.Builder(256)
    numbers = [build.CreateNumpyVector(np.array(each, np.float32)) for each in (mean, deviation)]
    other = table(build, 2, b0=3, f1=table(build, 1))
    wanted = table(build, 2, b0=1, f1=table(build, 2, f0=numbers[0], f1=numbers[1]))
    image = table(build, 7, f4=vector(build, [other, wanted]))
    graph = table(build, 10, f2=vector(build, [image]))
    build.Finish(table(build, 8, f3=vector(build, [graph])), file_identifier=b"M001")
    return bytes(build.Output())


def tflite_file(path: Path, said: bytes) -> Path:
    net = TfliteNet()
    image = net.tensor((1, 6, 6, 3))
    weights = net.constant(np.random.default_rng(1).normal(0, 1, (3, 108)).astype(np.float32))
    net("FULLY_CONNECTED", [image, weights, -1], (1, 3), "FullyConnectedOptions")
    return net.write(path / "net.tflite", image, net.operations[-1][2], said)


def onnx_file(path: Path, said: dict[str, str]) -> Path:
    file = written(path, lambda net: [net.node("ReduceMean", net.conv("images", 3, 1), axes=[2, 3], keepdims=0)])
    model = onnx.load(str(file))
    onnx.helper.set_model_props(model, said)
    onnx.save(model, str(file))
    return file


def imported(path: Path, **pixels: Any) -> tuple[FloatModel, ImportResult]:
    result = import_network(path, path.with_suffix(".safetensors"), pixels, LABELS)
    assert isinstance(result.model, FloatModel)
    return result.model, result


def test_normalization_options_are_the_pixels(tmp_path: Path) -> None:
    path = tflite_file(tmp_path, metadata([127.5], [127.5]))
    model, result = imported(path)
    assert (model.mean, model.scale) == ((127.5,), (127.5,))
    assert "pixels, as the file says: --colour rgb --mean 127.5 --std 127.5 --crop center" in result.notes
    model, result = imported(path, deviation=(60.0,))
    assert (model.mean, model.scale) == ((0.0,), (60.0,))
    assert not [note for note in result.notes if note.startswith("pixels")]


def test_numbers_for_other_channels_are_left_out(tmp_path: Path) -> None:
    model, result = imported(tflite_file(tmp_path, metadata([1, 2], [3, 4])))
    assert (model.mean, model.scale) == ((0.0,), (1.0,))
    assert AS_THEY_ARE in result.notes


@pytest.mark.parametrize(
    ("mean", "deviation"), [([127.5], [0]), ([float("nan")], [1]), ([1.0] * 99, [1.0] * 99), ([], [])]
)
def test_numbers_that_are_none_are_left_out(mean: list[float], deviation: list[float]) -> None:
    assert stored_pixels(metadata(mean, deviation)) == {}


def test_damaged_metadata_are_left_out() -> None:
    whole = metadata([127.5, 127.5, 127.5], [1, 2, 3])
    assert stored_pixels(whole) == {"mean": (127.5, 127.5, 127.5), "deviation": (1, 2, 3)}
    for place in range(len(whole)):
        stored_pixels(whole[:place])
        for value in (0, 0x7F, 0xFF):
            stored_pixels(whole[:place] + bytes([value]) + whole[place + 1 :])


@pytest.mark.parametrize(
    ("said", "mean", "deviation", "colour"),
    [
        ({"Image.BitmapPixelFormat": "Bgr8", "Image.NominalPixelRange": "NominalRange_0_255"}, 0, 1, "bgr"),
        ({"Image.NominalPixelRange": "Normalized_0_1"}, 0, 255, "rgb"),
        ({"Image.NominalPixelRange": "Normalized_1_1", "Image.BitmapPixelFormat": "Gray8"}, 127.5, 127.5, "rgb"),
    ],
    ids=["bgr", "0 to 1", "-1 to 1, gray, which it is not"],
)
def test_keys_of_onnx_are_the_pixels(
    said: dict[str, str], mean: float, deviation: float, colour: str, tmp_path: Path
) -> None:
    model, result = imported(onnx_file(tmp_path, said))
    assert (model.mean, model.scale, model.colour) == ((mean,), (deviation,), colour)
    assert AS_THEY_ARE not in result.notes
    assert imported(onnx_file(tmp_path, said), colour="rgb")[0].colour == "rgb"


def test_pixels_of_which_nothing_is_said_are_said(tmp_path: Path) -> None:
    assert AS_THEY_ARE in imported(onnx_file(tmp_path, {}))[1].notes
    assert AS_THEY_ARE not in imported(onnx_file(tmp_path, {}), mean=(0.0,))[1].notes
