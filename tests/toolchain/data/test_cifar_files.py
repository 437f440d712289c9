"""The official files: read right, and never run."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgemeta.toolchain.data.cifar100_labels import CIFAR100_LABELS
from edgemeta.toolchain.data.cifar_files import RECORD, RECORD_100, read_binary, read_python_batch
from edgemeta.toolchain.data.dataset import is_dataset, load_dataset
from edgemeta.toolchain.errors import DataError


def batch_of(pixels: Any, classes: Any) -> dict[bytes, object]:
    planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1))
    return {b"batch_label": b"testing batch 1 of 1", b"labels": classes.tolist(), b"data": planes}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_python_batches_of_every_protocol(tmp_path: Path, pixels: Any, classes: Any, protocol: int) -> None:
    path = tmp_path / "test_batch"
    path.write_bytes(pickle.dumps(batch_of(pixels, classes), protocol=protocol))
    if protocol == 5:  # arrays are stored in another way there; no official file is
        with pytest.raises(DataError, match="_frombuffer"):
            read_python_batch(path)
        return
    (x, y), count = read_python_batch(path)
    assert count == 10
    assert (x == pixels).all()
    assert (y == classes).all()


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (eval, ("open('stolen', 'w').close()",))


def test_a_hostile_pickle_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "data_batch_1"
    path.write_bytes(pickle.dumps({b"data": Evil(), b"labels": [0]}, protocol=2))
    with pytest.raises(DataError, match=r"refers to __builtin__\.eval, expected a CIFAR-10 Python batch"):
        read_python_batch(path)
    assert not (tmp_path / "stolen").exists()


@pytest.mark.parametrize("outside", ["os.system", "numpy.load", "builtins.getattr", "numpy.core.multiarray.fromfile"])
def test_other_names_are_refused(tmp_path: Path, outside: str) -> None:
    module, name = outside.rsplit(".", 1)
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02c" + f"{module}\n{name}\n".encode() + b".")
    with pytest.raises(DataError, match=outside):
        read_python_batch(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({b"data": np.zeros((20, 3072), np.float32)}, "data is f4"),
        ({b"data": np.zeros((20, 3071), np.uint8)}, "expected uint8"),
        ({b"data": np.zeros((0, 3072), np.uint8)}, "expected"),
        ({b"data": [1]}, "data is a list"),
        ({b"data": np.zeros((3072, 20), np.uint8).T}, "row by row"),
        ({b"data": np.zeros((19, 3072), np.uint8)}, "holds 19 images and 20 labels"),
        ({b"labels": [10] * 20}, "record 0 has label 10"),
        ({b"labels": ["a"] * 20}, "labels is not a list"),
        ({b"labels": []}, "labels is not a list"),
        ({b"labels": [300] * 20}, "labels is not a list"),
    ],
)
def test_wrong_batches(tmp_path: Path, pixels: Any, classes: Any, change: dict[bytes, Any], text: str) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(batch_of(pixels, classes) | change, protocol=2))
    with pytest.raises(DataError, match=text) as error:
        read_python_batch(path)
    assert str(error.value).startswith(f"{path}: ")


@pytest.mark.parametrize(("content", "text"), [([1], "holds a list"), ({b"data": 3}, "the batch holds data,")])
def test_other_pickles(tmp_path: Path, content: object, text: str) -> None:
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(content, protocol=2))
    with pytest.raises(DataError, match=text):
        read_python_batch(path)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_damaged_batches_are_one_error(tmp_path: Path, pixels: Any, classes: Any, data: st.DataObject) -> None:
    raw = bytearray(pickle.dumps(batch_of(pixels[:1], classes[:1]), protocol=2))
    outside = [i for i in range(len(raw)) if i < 250 or i > len(raw) - 80]
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.sampled_from(outside))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.sampled_from([len(raw), len(raw) // 2, 20]))]
    path = tmp_path / "batch"
    path.write_bytes(raw)
    with suppress(DataError):  # and no other error
        read_python_batch(path)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(raw=st.binary(max_size=300))
def test_any_bytes_as_a_batch(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "batch"
    path.write_bytes(b"\x80" + raw)
    with pytest.raises(DataError):
        read_python_batch(path)


@pytest.mark.parametrize("size", [0, 1, RECORD - 1, RECORD + 1])
def test_truncated_binary(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(DataError, match=f"has {size} bytes, expected a multiple of 3073"):
        read_binary(path)


def test_binary_with_a_wrong_label(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(RECORD) + bytes([11]) + bytes(RECORD - 1))
    with pytest.raises(DataError, match=r"record 1 has label 11, expected 0\.\.9"):
        read_binary(path)


@pytest.fixture
def fine() -> Any:
    """Fine labels of the twenty images, among them the last one."""
    return (np.arange(20) * 5 + 4).astype(np.uint8)


@pytest.mark.parametrize("end", [".bin", ""])
def test_cifar_100_has_fine_labels(tmp_path: Path, pixels: Any, fine: Any, end: str) -> None:
    """Files in the official format: coarse and fine label, then the planes; `train` and `test` in a folder."""
    planes = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2).reshape(20, -1))
    coarse = np.arange(20, dtype=np.uint8)
    for split, rows in (("train", slice(0, 15)), ("test", slice(15, 20))):
        path = tmp_path / f"{split}{end}"
        if end:
            path.write_bytes(np.column_stack([coarse, fine, planes])[rows].tobytes())
        else:
            batch = {
                b"filenames": [b"a.png"] * len(fine[rows]),
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": fine[rows].tolist(),
                b"coarse_labels": coarse[rows].tolist(),
                b"data": planes[rows],
            }
            path.write_bytes(pickle.dumps(batch, protocol=2))
        assert is_dataset(path)
        for found in (load_dataset(path), load_dataset(tmp_path, "train" if split == "train" else "test")):
            assert (found.x == pixels[rows]).all()
            assert (found.y == fine[rows]).all()
            assert found.labels == CIFAR100_LABELS
    assert is_dataset(tmp_path)


def test_cifar_100_has_a_hundred_names_in_alphabetical_order() -> None:
    assert len(set(CIFAR100_LABELS)) == 100
    assert list(CIFAR100_LABELS) == sorted(CIFAR100_LABELS)


def test_damaged_records_of_cifar_100(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    record = np.zeros((2, RECORD_100), np.uint8)
    record[1, 1] = 100
    path.write_bytes(record.tobytes())
    with pytest.raises(DataError, match=r"record 1 has label 100, expected 0\.\.99"):
        load_dataset(path)
    path.write_bytes(record.tobytes()[:-1])
    with pytest.raises(DataError, match="has 6147 bytes, expected a multiple of 3073"):
        load_dataset(tmp_path, "train")
