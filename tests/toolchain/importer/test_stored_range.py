"""What an integer file says of its pixels: the real numbers that its input holds."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.import_network import import_network
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet


def written(path: Path, scale: float, zero_point: int, bias: int = 0) -> Path:
    """A classifier of five labels."""
    rng, net = np.random.default_rng(1), TfliteNet()
    image = net.tensor((1, 6, 6, 3), "int8", Scale((scale,), (zero_point,)))
    weight = net.constant(rng.integers(-127, 128, (5, 108)).astype(np.int8), Scale((0.01,)))
    shifts = rng.integers(-99, 99, 5).astype(np.int32)
    shifts[0] += bias
    shift = net.constant(shifts, Scale((0.01 * scale,)))
    net("FULLY_CONNECTED", [image, weight, shift], (1, 5), "FullyConnectedOptions", Scale((scale,)))
    return net.write(path, image, net.operations[-1][2])


@pytest.mark.parametrize(
    ("scale", "zero_point", "said"),
    [
        (1 / 255, -128, "--mean 0 --std 255, as the file's input holds 0 to 1"),
        (1 / 127.5, 0, "--mean 127.5 --std 127.5, as the file's input holds -1.004 to 0.9961"),
        (1.0, 0, "--mean 128 --std 1, as the file's input holds -128 to 127"),
        (1.0, -128, None),
    ],
)
def test_a_usual_range_of_the_input_is_that_of_the_pixels(
    scale: float, zero_point: int, said: str | None, tmp_path: Path
) -> None:
    result = import_network(written(tmp_path / "net.tflite", scale, zero_point), tmp_path / "model.safetensors", {})
    assert [note for note in result.notes if "--mean" in note] == ([f"pixels: {said}"] if said else [])
    assert isinstance(result.model, Model)
    np.testing.assert_allclose(result.model.preprocessing.table[0], np.arange(256) - 128, atol=1)


@pytest.mark.parametrize("colour", ["rgb", "bgr"])
def test_the_range_of_imagenet_is_that_of_the_pixels(colour: str, tmp_path: Path) -> None:
    path, turn = written(tmp_path / "net.tflite", 0.01863, -14), 1 if colour == "rgb" else -1
    result = import_network(path, tmp_path / "model.safetensors", {"colour": colour})
    mean, deviation = (",".join(each.split()[::turn]) for each in ("123.675 116.28 103.53", "58.395 57.12 57.375"))
    assert f"pixels: --mean {mean} --std {deviation}, as the file's input holds -2.124 to 2.627" in result.notes


def test_a_bias_that_leaves_the_sums_no_room_is_the_nearest_that_does(tmp_path: Path) -> None:
    """A label that is always the least one."""
    path = written(tmp_path / "net.tflite", 1 / 255, -128, bias=-(2**31) + 99)
    result = import_network(path, tmp_path / "model.safetensors", {})
    assert isinstance(result.model, Model)
    image = np.random.default_rng(3).integers(-128, 128, (4, 6, 6, 3)).astype(np.int8)
    (scores,) = reference.run(result.model, image)
    assert (scores[..., 0] == -128).all()


def test_what_the_user_says_counts_more(tmp_path: Path) -> None:
    path = written(tmp_path / "net.tflite", 1 / 255, -128)
    result = import_network(path, tmp_path / "model.safetensors", {"mean": (0.0,), "deviation": (300.0,)})
    assert isinstance(result.model, Model)
    assert len(np.unique(result.model.preprocessing.table)) < 230


@pytest.mark.parametrize(
    ("scale", "zero_point", "said"),
    [
        (0.02, 3, r"-2\.62 to 2\.48, .* such as --mean 131 --std 50$"),
    ],
)
def test_another_range_is_asked_for(scale: float, zero_point: int, said: str, tmp_path: Path) -> None:
    path = written(tmp_path / "net.tflite", scale, zero_point)
    with pytest.raises(ImportedFileError, match=f"its input holds {said}"):
        import_network(path, tmp_path / "model.safetensors", {})
