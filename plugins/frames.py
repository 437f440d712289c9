"""From camera frames to a session's outputs: preprocessed on the host, or by the session on its device."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle
from edgemeta.plugins.api import BackendError, Batch, FrameSession, Outputs, Session
from edgemeta.plugins.preprocess import Preprocessor, make_preprocessor

Place: TypeAlias = Literal["cpu", "device"]
"""Where frames are preprocessed: by the C++ library, or by the backend on its device."""


class PlaceError(BackendError):
    """The backend does not preprocess frames."""


class FrameInput(Protocol):
    """Frames of one shape and their regions, opened by one FrameRunner. images: number of regions."""

    @property
    def images(self) -> int:
        """Images of the input that one frame becomes."""
        ...


Frames: TypeAlias = Sequence[tuple[Any, NDArray[np.uint8]]]
"""FrameInputs of the runner that takes them, each with a frame's pixels, [H, W, 3] in B, G, R order or gray [H, W]."""


class FrameRunner(Protocol):
    """Runs frames on one session. `prepare`, then `run`: one thread at a time."""

    def open(self, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> FrameInput:
        """An input for frames of one shape, [H, W, 3] in B, G, R order or gray [H, W]. Any thread may call it.

        regions: parts of a frame, each of which becomes an image as a frame of its own. Raises FrameError for an
        invalid shape or a region that is not inside.
        """
        ...

    def prepare(self, frames: Frames) -> None:
        """Take frames, of which nothing is used afterwards. Raises FrameError, BackendError."""
        ...

    def run(self) -> Outputs:
        """As `Session.run`, for the images of the frames taken last, in their order."""
        ...


def frame_runner(model: Model, backend: str, session: Session, place: Place) -> FrameRunner:
    """A runner that preprocesses at a place. Raises PlaceError if the session of that backend cannot."""
    if place == "cpu":
        return HostFrames(model, session)
    if not isinstance(session, FrameSession):
        raise PlaceError(f"backend {backend} does not preprocess frames on its device for model {model.name}")
    return DeviceFrames(session)


class HostInput:
    """A preprocessor and the number of images that it makes."""

    def __init__(self, prepare: Preprocessor, images: int) -> None:
        self.prepare = prepare
        self.images = images


class HostFrames:
    """Preprocesses with the C++ library; images of several frames are joined to one batch."""

    def __init__(self, model: Model, session: Session) -> None:
        self._model = model
        self._session = session
        self._batch: Batch
        self._joined: dict[int, Batch] = {}

    def open(self, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> HostInput:
        """As `FrameRunner.open`."""
        return HostInput(make_preprocessor(self._model, frame_shape, regions), len(regions))

    def prepare(self, frames: Frames) -> None:
        """As `FrameRunner.prepare`."""
        if len(frames) == 1:
            ((only, pixels),) = frames
            self._batch = only.prepare(pixels)  # the same array for every frame: a session need not look at it again
            return
        images = sum(each.images for each, _ in frames)
        if images not in self._joined:
            kind = self._model.input
            self._joined[images] = np.empty((images, *kind.shape), np.int8 if kind.signed else np.uint8)
        self._batch, first = self._joined[images], 0
        for each, pixels in frames:
            self._batch[first : first + each.images] = each.prepare(pixels)
            first += each.images

    def run(self) -> Outputs:
        """As `FrameRunner.run`."""
        return self._session.run(self._batch)


class DeviceFrames:
    """Hands frames to a session that preprocesses them."""

    def __init__(self, session: FrameSession) -> None:
        self.open: Callable[[tuple[int, ...], Sequence[Rectangle]], FrameInput] = session.open_frames
        self.prepare: Callable[[Frames], None] = session.load_frames
        self.run: Callable[[], Outputs] = session.run_frames
