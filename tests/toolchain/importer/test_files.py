"""Files that are damaged or no networks: one sentence each."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from benchmarks.topologies import write_topology
from edgemeta.toolchain.errors import ImportedFileError
from edgemeta.toolchain.importer.onnx_network import import_onnx
from edgemeta.toolchain.importer.other_files import refuse_other_files


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", r"found no ONNX network \(no nodes\)"),
        (b"an ordinary text\n" * 40, r"found no ONNX network \("),
        (bytes(range(256)) * 30, r"found no ONNX network \("),
    ],
    ids=["empty", "text", "bytes"],
)
def test_what_is_no_network_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportedFileError, match=rf"net\.onnx: {reason}"):
        import_onnx(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ImportedFileError, match=r"none\.onnx: cannot be read: No such file or directory"):
        import_onnx(tmp_path / "none.onnx")
    with pytest.raises(ImportedFileError, match="cannot be read: Is a directory"):
        import_onnx(tmp_path)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ([1, 10], "the input has 2 dimensions, expected 4"),
        ([1, 224, 224, 5], r"the input has 224 channels, expected 1 \.\. 4 in the order N, C, H, W or N, H, W, C"),
        ([8, 3, 16, 16], "the input is a batch of 8 images, expected 1"),
    ],
    ids=str,
)
def test_inputs_that_are_no_image_are_refused(shape: list[int], reason: str, tmp_path: Path) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph), str(path))
    with pytest.raises(ImportedFileError, match=reason):
        import_onnx(path)


@pytest.mark.gate("20 s: hundreds of files are read")
def test_damaged_files_give_a_sentence_or_a_network(tmp_path: Path) -> None:
    """Truncated anywhere, and with wrong bytes: nothing but ImportedFileError, of one line."""
    whole = write_topology("mobilenet_v3_small", tmp_path, 32).read_bytes()
    rng = np.random.default_rng(5)
    path = tmp_path / "damaged.onnx"
    sentences = []
    for number in range(60):
        content = bytearray(whole)
        if number % 2:
            del content[int(rng.integers(len(content))) :]
        else:
            for place in rng.integers(0, len(content), 20):
                content[place] = int(rng.integers(256))
            for place in rng.integers(0, 4000, 4):  # where nodes are described
                content[place] = int(rng.integers(256))
        path.write_bytes(bytes(content))
        try:
            import_onnx(path)
        except ImportedFileError as error:
            sentences.append(str(error))
    assert len(sentences) > 30
    assert not [each for each in sentences if "\n" in each]


def hostile(nodes: list[onnx.NodeProto], constants: dict[str, list[int]]) -> bytes:
    """A network of an image and what these nodes make of constants."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 16, 16]) for name in "xy")
    tensors = [onnx.numpy_helper.from_array(np.array(values, np.int64), name) for name, values in constants.items()]
    graph = helper.make_graph([*nodes, helper.make_node("Add", ["x", "big"], ["y"])], "hostile", [x], [y], tensors)
    content: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    ).SerializeToString()
    return content


HUGE = 1 << 36
HOSTILE = {
    "ConstantOfShape": hostile([helper.make_node("ConstantOfShape", ["n"], ["big"])], {"n": [HUGE]}),
    "Expand": hostile(
        [helper.make_node("ConstantOfShape", ["one"], ["small"]), helper.make_node("Expand", ["small", "n"], ["big"])],
        {"one": [1], "n": [1 << 18, 1 << 18]},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_constants_that_a_file_makes_large_are_refused(name: str, tmp_path: Path) -> None:
    """Of 64 billion elements, from files of a few hundred bytes; the limit of memory holds for the child that reads."""
    path = tmp_path / "hostile.onnx"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(ImportedFileError, match=r"hostile\.onnx: ") as caught:
        import_onnx(path)
    assert "\n" not in str(caught.value)


def test_a_shape_without_data_is_refused(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 20, 1 << 20, 1, 1], raw_data=b"\0" * 16)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 16, 16]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "hostile", [x], [y], [weight])
    path = tmp_path / "hostile.onnx"
    onnx.save(helper.make_model(graph), str(path))
    with pytest.raises(ImportedFileError, match="the network is not consistent"):
        import_onnx(path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:4f\n", "is a pointer of Git LFS"),
        (b"PK\x03\x04" + bytes(26) + b"archive/data.pkl", "holds weights of PyTorch: export the network to ONNX"),
        (b"PK\x03\x04" + bytes(26) + b"net.onnx", "is an archive: import the network in it"),
        (b"\x80\x02}q\x00.", "holds objects of Python, as PyTorch saves them"),
        (b"<!DOCTYPE html>", "is a page of the web"),
        (b"\x89HDF\r\n\x1a\n", "holds a network of Keras"),
    ],
    ids=["git lfs", "torch", "zip", "pickle", "page", "keras"],
)
def test_a_file_that_is_known_is_called_what_it_is(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(content)
    with pytest.raises(ImportedFileError, match=f"net.onnx: {reason}"):
        refuse_other_files(path)


@pytest.mark.parametrize(
    ("op", "numbers"),
    [("Pad", [0, 1 << 24, 0, 0, 0, 0, 0, 0]), ("Pad", [0, 0, 1 << 30, 0, 0, 0, 0, 0]), ("Tile", [1, 1 << 30, 1, 1])],
    ids=str,
)
def test_sizes_that_a_damaged_file_asks_for_are_refused_before_they_are_made(
    op: str, numbers: list[int], tmp_path: Path
) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 9, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    given = helper.make_tensor("n", TensorProto.INT64, [len(numbers)], numbers)
    graph = helper.make_graph([helper.make_node(op, ["x", "n"], ["y"])], "small", [x], [y], [given])
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), str(path))
    with pytest.raises(ImportedFileError, match="expected"):
        import_onnx(path)
