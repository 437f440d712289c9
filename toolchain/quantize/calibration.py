"""Calibration images: where they come from, and as a network takes them."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress, Report
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Float32, TensorType
from edgemeta.plugins.drawn.crowd import CrowdedScenes
from edgemeta.plugins.pictures import PICTURE_SUFFIXES
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.toolchain.data.boxed_images import is_boxed, load_boxed_images
from edgemeta.toolchain.data.boxes.opened import BoxedFrames
from edgemeta.toolchain.data.dataset import NUMBERS, is_dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frame, Frames
from edgemeta.toolchain.data.npz_files import members_of
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.image import image_input

Integers = NDArray[np.int8] | NDArray[np.uint8]


class _Store:
    """Arrays of one size in a temporary file, which is deleted with this object."""

    def __init__(self, kind: TensorType) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __del__)
        self._dtype, self._shape = np.dtype(kind.dtype), (1, *kind.shape)
        self._bytes = int(np.prod(self._shape))

    def append(self, image: Integers) -> None:
        """Add one after the last."""
        self._file.write(image.tobytes())
        self._file.flush()

    def read(self, number: int) -> Integers:
        """Array `number`, counted from 0."""
        raw = os.pread(self._file.fileno(), self._bytes, number * self._bytes)  # several threads, processes may read
        image: Integers = np.frombuffer(raw, self._dtype).reshape(self._shape)
        return image

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()


class PreparedImages:
    """Images of one network: iterating gives the integers [1, H, W, C] of its input type, the same in every pass.

    They are preprocessed as the service does it and lie in a temporary file, so memory holds one image however many
    there are. `chosen` and `take` are views of some of them.
    """

    def __init__(self, model: FloatModel, frames: Frames, stage: Progress | None = None) -> None:
        wanted = image_input(model)
        self.kind = kind = wanted.input
        self._store = _Store(kind)
        prepare: dict[tuple[int, ...], Preprocessor] = {}
        count = 0
        for frame in frames:
            if frame.shape not in prepare:
                prepare = {frame.shape: make_preprocessor(wanted, frame.shape)}
            self._store.append(prepare[frame.shape](frame))
            count += 1
            if stage is not None:
                stage(count, len(frames))
        if count == 0:
            raise QuantizeError(f"{frames.source}: no picture could be used, expected at least one")
        self._numbers: range | list[int] = range(count)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Integers]:
        for number in self._numbers:
            yield self._store.read(number)

    def __getitem__(self, number: int) -> Integers:
        return self._store.read(self._numbers[number])

    def show_one_place(self) -> bool:
        """Whether much of each image is the same, as of a camera that does not move.

        So it is if the mean image holds more than an eighth of the variance of all numbers; those that no image
        changes, as a letterbox, are left out.
        """
        count = len(self)
        sums, squares = np.zeros(self.kind.shape), np.zeros(self.kind.shape)
        for image in self:
            sums += image[0]
            squares += np.square(image[0], dtype=np.float64)
        mean = sums / count
        varies = squares / count > np.square(mean)
        if count == 1 or not varies.any():
            return True
        same = float(mean[varies].var())
        every = same + float((squares / count - np.square(mean))[varies].mean())
        return (count * same / every - 1) / (count - 1) > _SAME  # less what the mean of unlike images varies by

    @property
    def numbers(self) -> Sequence[int]:
        """Which of all images these are, counted from 0."""
        return self._numbers

    def chosen(self, count: int) -> "PreparedImages":
        """At most `count` of these images, evenly spaced; they share the file."""
        total = len(self)
        return self.take([i * total // count for i in range(count)]) if count < total else self

    def take(self, numbers: Sequence[int]) -> "PreparedImages":
        """The images of these numbers; they share the file."""
        some = object.__new__(PreparedImages)
        some.__dict__.update(self.__dict__)
        some._numbers = [self._numbers[number] for number in numbers]
        return some

    def real(self, image: Integers) -> Float32:
        """What the float network takes for an image [1, H, W, C], [1, H, W, C]: scale * (integer - zero point)."""
        centred = image.astype(np.float32) - np.float32(self.kind.zero_point)
        return (centred * np.float32(self.kind.scale)).astype(np.float32, copy=False)


class WithDrawn:
    """Frames of a calibration, and behind them `DRAWN` drawn scenes, which are the same everywhere.

    One camera shows a network little of what it may see elsewhere (`PreparedImages.show_one_place`): the scenes widen
    ranges that would be too narrow, and say whether a network that was fitted to the frames is still right beside them.
    """

    def __init__(self, frames: Frames) -> None:
        self.source = frames.source
        self._frames = frames

    def __len__(self) -> int:
        return len(self._frames) + DRAWN

    def __iter__(self) -> Iterator[Frame]:
        yield from self._frames
        scenes = CrowdedScenes(_SEED, _SIDE)
        for number in range(DRAWN):
            yield scenes.draw(number).pixels


_SAME = 1 / 8
"""Photographs of many places have 0.01 to 0.08, clips of fixed cameras 0.16 to 0.91."""
DRAWN = 16
"""Drawn scenes beside the images of a calibration."""
_SEED, _SIDE = 2026, 320

DATASET_IMAGES, PICTURES = 1000, 200
"""How many images of a data set, and how many pictures or frames, are used unless stated."""
DISTILL_PICTURES = 2000
"""How many pictures a distillation takes at most, evenly chosen."""


@dataclass(frozen=True)
class Calibration:
    """Which calibration images are used.

    images: at most so many; default 1,000 of a data set, equally many of each class, and 200 of pictures or frames,
    evenly chosen, or of squares with boxes, the first ones. first, last: of a video, only frames first .. last - 1,
    numbered from 0.
    """

    path: Path
    images: int | None = None
    first: int = 0
    last: int | None = None

    def frames(self, report: Report) -> Frames:
        """The images. report: called with one sentence for each damaged picture. Raises ToolchainError."""
        if not self.path.exists():
            raise QuantizeError(f"{self.path} does not exist, expected a data set, a folder of pictures or a video")
        is_video = self.path.is_file() and not self._is_picture and not is_dataset(self.path)
        if is_video:
            return ClipFrames(self.path, self.images or PICTURES, self.first, self.last)
        if self.first or self.last is not None:
            raise QuantizeError(f"{self.path} is no video, so it has no frames to choose by number")
        if is_boxed(self.path):
            if "x" not in members_of(self.path):
                return BoxedFrames(self.path, self.images or PICTURES)
            return ArrayFrames(load_boxed_images(self.path).x[: self.images or PICTURES], str(self.path))
        if is_dataset(self.path):
            data = load_dataset(self.path, "train", report=report, labels=NUMBERS)
            return ArrayFrames(data.balanced(self.images or DATASET_IMAGES).x, str(self.path))
        return FolderFrames(self.path, self.images or PICTURES, report)

    @property
    def _is_picture(self) -> bool:
        return self.path.suffix.lower() in PICTURE_SUFFIXES
