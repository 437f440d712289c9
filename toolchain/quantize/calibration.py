"""Where calibration images come from: a data set, a folder of pictures, a picture or a video clip."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgemeta.plugins.pictures import PICTURE_SUFFIXES
from edgemeta.toolchain.data.boxed_images import is_boxed, load_boxed_images
from edgemeta.toolchain.data.dataset import NUMBERS, is_dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frames
from edgemeta.toolchain.errors import QuantizeError

DATASET_IMAGES, PICTURES = 1000, 200
"""How many images of a data set, and how many pictures or frames, are used unless stated."""


@dataclass(frozen=True)
class Calibration:
    """Which calibration images are used.

    images: at most so many; default 1,000 of a data set, equally many of each class, and 200 of pictures or frames,
    evenly chosen, or of images with boxes, the first ones. first, last: of a video, only frames first .. last - 1,
    numbered from 0.
    """

    path: Path
    images: int | None = None
    first: int = 0
    last: int | None = None

    def frames(self, report: Callable[[str], None]) -> Frames:
        """The images. report: called with one sentence for each damaged picture. Raises ToolchainError."""
        if not self.path.exists():
            raise QuantizeError(f"{self.path} does not exist, expected a data set, a folder of pictures or a video")
        is_video = self.path.is_file() and not self._is_picture and not is_dataset(self.path)
        if is_video:
            return ClipFrames(self.path, self.images or PICTURES, self.first, self.last)
        if self.first or self.last is not None:
            raise QuantizeError(f"{self.path} is no video, so it has no frames to choose by number")
        if is_boxed(self.path):
            x = load_boxed_images(self.path).x
            return ArrayFrames(x[: self.images or PICTURES], str(self.path))
        if is_dataset(self.path):
            data = load_dataset(self.path, "train", report=report, labels=NUMBERS)
            return ArrayFrames(data.balanced(self.images or DATASET_IMAGES).x, str(self.path))
        return FolderFrames(self.path, self.images or PICTURES, report)

    @property
    def _is_picture(self) -> bool:
        return self.path.suffix.lower() in PICTURE_SUFFIXES
