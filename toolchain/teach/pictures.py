"""From a folder of pictures to what the backbone makes of them, picture by picture; sums over cells are kept."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress, Report
from edgemeta.model.graph import Model
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor
from edgemeta.toolchain.data.class_folders import ClassFolders
from edgemeta.toolchain.data.picture_files import read_pictures
from edgemeta.toolchain.errors import TeachError
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.teach.backbone import Plan
from edgemeta.toolchain.teach.features import cell_sums
from edgemeta.toolchain.teach.views import PLAIN, Frame, views

_ROWS, _MOST_VIEWS = 1600, 4
"""Views of all pictures together, and of one: with few pictures copies are made, with many there is no need."""
THUMBNAIL = 16
"""Side of the small pictures that are compared with each other."""
LEAST_PICTURES = 5
"""Pictures of a class without which it cannot be validated: one for each fold."""
_SHAPES = 16

Region = Callable[[Frame], Frame | None]
"""Takes the part of a frame that counts; None where it shows nothing that does."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures that could be read, in the order of their labels, then of time (`natural order`).

    names: "class/file" of each. y: int64 [N], index into labels. sums: of each tensor of the plan, int32
    [N, views, cells, cells, C]. thumbnails: int16 [N, THUMBNAIL, THUMBNAIL, 3]. sha256: of the images that the network
    sees and their classes.
    """

    labels: tuple[str, ...]
    names: tuple[str, ...]
    y: NDArray[np.int64]
    sums: dict[str, NDArray[np.int32]]
    thumbnails: NDArray[np.int16]
    sha256: str

    @property
    def counts(self) -> NDArray[np.int64]:
        """Pictures of each class, [labels]."""
        return np.bincount(self.y, minlength=len(self.labels))


def look_at(
    files: ClassFolders, network: Model, plan: Plan, region: Region | None, report: Report, progress: Progress
) -> Pictures:
    """Run the network, whose outputs are the plan's tensors, on all views of all pictures.

    report: is called with a sentence for each picture that cannot be read or shows nothing. Raises TeachError if a
    class has fewer than LEAST_PICTURES others.
    """
    kept: list[int] = []
    thumbnails = []
    sums: dict[str, list[NDArray[np.int32]]] = {name: [] for name in plan.grids}
    types = network.types
    digest = hashlib.sha256()
    prepared = _preparer(network)
    count = view_count(len(files))
    with closing(integer_session(network)) as session:
        for number, pixels in read_pictures(files, report):
            frame = pixels if region is None else region(pixels)
            if frame is None:
                report(f"{files.names[number]}: shows no such object, left out")
                continue
            of_views: dict[str, list[NDArray[np.int32]]] = {name: [] for name in plan.grids}
            for position, view in enumerate(views(frame, files.names[number], count)):
                image = prepared(view.shape)(view)
                if position == 0:
                    digest.update(bytes([files.y[number] % 256]) + image.tobytes())
                for name, output in zip(network.outputs, session.run(image), strict=True):
                    of_views[name].append(cell_sums(output[0], types[name].zero_point, plan.grids[name]))
            for name, made in of_views.items():
                sums[name].append(np.stack(made))
            small = cv2.resize(frame, (THUMBNAIL, THUMBNAIL), interpolation=cv2.INTER_AREA)
            thumbnails.append(small.astype(np.int16))
            kept.append(number)
            progress(number + 1, len(files))
    y = files.y[kept]
    _check_counts(files, y)
    stacked = {name: np.stack(made) for name, made in sums.items()}
    names = tuple(files.names[number] for number in kept)
    return Pictures(files.labels, names, y, stacked, np.stack(thumbnails), digest.hexdigest())


def view_count(pictures: int) -> int:
    """Views of each picture: 4, 2 or 1, the more the fewer pictures there are."""
    return next((count for count in (_MOST_VIEWS, PLAIN) if count * pictures <= _ROWS), 1)


def _preparer(network: Model) -> Callable[[tuple[int, ...]], Preprocessor]:
    return lru_cache(_SHAPES)(lambda shape: make_preprocessor(network, shape))


def _check_counts(files: ClassFolders, y: NDArray[np.int64]) -> None:
    counts = np.bincount(y, minlength=len(files.labels))
    for label, count in zip(files.labels, counts, strict=True):
        if count < LEAST_PICTURES:
            raise TeachError(
                f"{files.path / label}: has {count} pictures that can be used, expected at least {LEAST_PICTURES}, "
                "as some are held out to check the others"
            )


def chosen(files: ClassFolders) -> ClassFolders:
    """As many pictures as are looked at, of each class evenly chosen in natural order, which they are put in."""
    share = max(LEAST_PICTURES, _ROWS // len(files.labels))
    numbers: list[int] = []
    for label in range(len(files.labels)):
        members = sorted(np.flatnonzero(files.y == label).tolist(), key=lambda i: natural(files.names[i]))
        count = min(share, len(members))
        numbers += [members[i * len(members) // count] for i in range(count)]
    return replace(files, names=tuple(files.names[i] for i in numbers), y=files.y[numbers])


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key in which numbers within a name count as numbers: frame-2 comes before frame-10."""
    parts: list[tuple[int, int, str]] = []
    text = ""
    digits = ""
    for letter in f"{name}\0":
        if letter.isascii() and letter.isdigit():
            digits += letter
            if text:
                parts.append((1, 0, text))
                text = ""
        else:
            if digits:
                parts.append((0, int(digits), ""))
                digits = ""
            text += letter
    return (*parts, (1, 0, text))
