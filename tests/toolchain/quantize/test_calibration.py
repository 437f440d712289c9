"""Prepared calibration images: as the service would prepare them, in bounded memory."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.float_reference import network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.preprocess import preprocess
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.image import image_input


class Large:
    """Many large frames that are never in memory together."""

    source = "large frames"

    def __len__(self) -> int:
        return 40

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        for number in range(len(self)):
            yield np.full((600 + number, 800, 3), number, np.uint8)


def test_images_are_preprocessed_as_the_service_does(imported_layers: FloatModel, pixels: Any) -> None:
    prepared = PreparedImages(imported_layers, ArrayFrames(pixels))
    wanted = image_input(imported_layers)
    for image, picture in zip(prepared, pixels, strict=True):
        frame = np.ascontiguousarray(picture[..., ::-1])
        assert (image[0] == preprocess(frame, wanted.input, wanted.preprocessing)).all()
        np.testing.assert_allclose(prepared.real(image), network_input(imported_layers, picture[None]), atol=1e-6)


def test_some_are_evenly_chosen(every_layer: FloatModel, pixels: Any) -> None:
    prepared = PreparedImages(every_layer, ArrayFrames(pixels))
    every = list(prepared)
    assert (np.stack(list(prepared.chosen(4))) == np.stack([every[i] for i in (0, 5, 10, 15)])).all()
    assert len(prepared.chosen(99)) == 20
    assert (next(iter(prepared.chosen(10).chosen(2))) == every[0]).all()


def test_memory_does_not_grow_with_the_number_of_images(every_layer: FloatModel) -> None:
    tracemalloc.start()
    try:
        prepared = PreparedImages(every_layer, Large())
        for _ in prepared:
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(prepared) == 40
    assert peak < 6 * 640 * 800 * 3  # a few frames, of forty


def test_no_usable_picture(every_layer: FloatModel) -> None:
    with pytest.raises(QuantizeError, match="the images: no picture could be used"):
        PreparedImages(every_layer, ArrayFrames(np.zeros((0, 4, 4, 3), np.uint8)))


def test_frames_of_one_camera_show_one_place(every_layer: FloatModel) -> None:
    rng = np.random.default_rng(5)
    place = rng.integers(0, 200, (32, 32, 3))
    noise = rng.integers(0, 50, (6, 32, 32, 3))
    unlike = rng.integers(0, 255, (6, 32, 32, 3)).astype(np.uint8)
    unlike[:, :4] = 0  # as a letterbox
    assert PreparedImages(every_layer, ArrayFrames((place + noise).astype(np.uint8), "x")).show_one_place()
    assert not PreparedImages(every_layer, ArrayFrames(unlike, "x")).show_one_place()
    assert PreparedImages(every_layer, ArrayFrames(unlike[:1], "x")).show_one_place()


def test_an_archive_of_jpeg_files_with_boxes_calibrates(shared_data: Path) -> None:
    frames = list(Calibration(shared_data / "detection" / "gate_states.npz", images=3).frames(print))
    assert [frame.dtype for frame in frames] == [np.uint8] * 3
    assert all(frame.ndim == 3 for frame in frames)
