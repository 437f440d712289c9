"""TFLite files that nobody here made: the float ones equal LiteRT, the int8 ones are one step off at most per layer."""

from pathlib import Path

import numpy as np
import pytest

from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.tflite_network import import_tflite
from tests.toolchain.importer.litert import integer_steps, largest_float_difference
from tests.toolchain.importer.test_tflite_operators import FLOAT
from tests.toolchain.importer.tflite_cases import written

GATE = pytest.mark.gate("5 to 20 s: whole networks on kernels that are not made for speed")


@GATE
@pytest.mark.parametrize("name", ["mlperf_tiny/pretrainedResnet", "networks/vww_96_float"])
def test_a_float_network_equals_litert(name: str, shared_data: Path) -> None:
    assert largest_float_difference(shared_data / f"{name}.tflite") < 1e-5


@GATE
@pytest.mark.parametrize(
    "name", ["mlperf_tiny/pretrainedResnet_quant", "networks/vww_96_int8", "networks/yolox_nano_int8"]
)
def test_each_layer_of_an_int8_network_is_within_one_step_of_litert(name: str, shared_data: Path) -> None:
    path = shared_data / f"{name}.tflite"
    _, channels, height, width = import_tflite(path)[0].input_shape
    images = np.random.default_rng(0).integers(-128, 128, (2, height, width, channels)).astype(np.int8)
    steps = integer_steps(path, images)
    assert len(steps.layers) == 2
    assert steps.layers[1] < 0.005 * steps.layers.sum()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it has no identifier TFL3"),
        (b"an ordinary text\n" * 40, "it has no identifier TFL3"),
        (b"\xff\xff\xff\x7fTFL3", "a place or length in it leads out of it"),
        (b"\x08\0\0\0TFL3" + bytes(40), "version 0 with 0 subgraphs"),
    ],
    ids=["empty", "text", "root beyond the end", "zeros"],
)
def test_what_is_no_network_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "net.tflite"
    path.write_bytes(content)
    with pytest.raises(ImportedFileError, match=rf"net\.tflite: found no TFLite network that can be read \(({reason})"):
        import_tflite(path)


def test_damaged_files_give_a_sentence_or_a_network(tmp_path: Path) -> None:
    """Truncated anywhere, and with wrong bytes: nothing but ImportedFileError, of one line."""
    whole = written(FLOAT["MUL, swish"], tmp_path).read_bytes()
    rng, path, sentences = np.random.default_rng(6), tmp_path / "damaged.tflite", []
    for number in range(300):
        content = bytearray(whole)
        if number % 3 == 0:
            del content[int(rng.integers(len(content))) :]
        else:
            for place in rng.integers(0, len(content), 1 + number % 8):
                content[place] = int(rng.integers(256))
        path.write_bytes(bytes(content))
        try:
            import_tflite(path)
        except ImportedFileError as error:
            sentences.append(str(error))
    assert len(sentences) > 100
    assert not [each for each in sentences if "\n" in each]
