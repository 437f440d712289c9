"""A model on a GPU as a backend session."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.plan.launch_plan import Launch, forms_of
from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import Rectangle
from edgemeta.plugins.api import BackendError, Batch, Outputs, SessionLostError
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.driver import NAME, driver_error, driver_errors
from edgemeta.plugins.cuda.frames import Form, FrameRuns, as_it_is
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.timing import Stopwatch, host_us
from edgemeta.plugins.preprocess import checked_regions
from edgemeta.plugins.session import check_batch

HOST = "host and copies"
"""Name of the last step of a profile: the time of a call without its launches."""


class CudaSession:
    """Owns a context and a loaded plan; returns the same arrays for every run of a batch size.

    It may be used from any thread, one at a time. A device error frees everything at once, and each later call raises
    an error with the same reason.
    """

    def __init__(self, model: Model, device: DeviceContext, loaded: LoadedPlan, form: Form = as_it_is) -> None:
        """form: of preprocessing and network (frames.py)."""
        self._model = model
        self._form = form
        self._device = device
        self._loaded = loaded
        self._closed: str | None = None
        self._refusal: type[BackendError] = BackendError
        self._outputs: dict[int, Outputs] = {}
        self._stopwatch: Stopwatch | None = None
        self._frames: FrameRuns | None = None
        self._errors: type[Exception] = device.cuda.Error

    @property
    def architecture(self) -> str:
        """The architecture that its kernels are compiled for, such as "sm_53"."""
        return self._loaded.plan.architecture.name

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The kernel launches of one run."""
        return self._loaded.plan.launches

    def forms(self) -> Mapping[str, str]:
        """The kernel and form of every step, by the names that `profile` gives them."""
        return forms_of(self.launches)

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`. On a device error it frees all memory of the session and raises SessionLostError."""
        self._check_open()
        check_batch(NAME, self._model, batch)
        outputs = self._outputs_for(len(batch))
        with self._working(f"running a batch of {len(batch)}"):
            self._loaded.run(batch, outputs)
        return outputs

    def open_frames(self, frame_shape: tuple[int, ...], regions: Sequence[Rectangle]) -> FrameLayout:
        """As `FrameSession.open_frames`."""
        return FrameLayout(self._model, frame_shape, checked_regions(frame_shape, regions))

    def load_frames(self, frames: Sequence[tuple[FrameLayout, NDArray[np.uint8]]]) -> None:
        """As `FrameSession.load_frames`."""
        self._check_open()
        with self._working(f"taking {len(frames)} frames"):
            if self._frames is None:
                self._frames = FrameRuns(self._model, self._loaded, self._form)
            self._frames.load(frames)

    def run_frames(self) -> Outputs:
        """As `FrameSession.run_frames`."""
        self._check_open()
        assert self._frames is not None, "no frames were taken"
        outputs = self._outputs_for(self._frames.images)
        with self._working(f"running {self._frames.images} images of frames"):
            self._frames.run(outputs)
        return outputs

    def profile(self, image: Batch) -> dict[str, float]:
        """Run a batch of one; microseconds of every launch by the device's clock, then the time added by the host."""
        self._check_open()
        check_batch(NAME, self._model, image)
        if len(image) != 1:
            raise BackendError(f"backend {NAME}: a profile takes one image, the batch has {len(image)}")
        with self._working("measuring its steps"):
            return self._profile(image)

    def close(self) -> None:
        """As `Session.close`."""
        if self._closed is None:
            self._closed = f"backend {NAME}: the session is closed"
            with driver_errors(self._device.cuda, "freeing its memory"):
                self._release()

    def _profile(self, image: Batch) -> dict[str, float]:
        self._loaded.run(image, self._outputs_for(1))  # the first run of a batch size prepares the later ones
        if self._stopwatch is None:
            self._stopwatch = Stopwatch(self._loaded)
        steps = {"+".join(launch.layers): self._stopwatch.launch_us(launch) for launch in self.launches}
        host = host_us(self._loaded, image, self._outputs_for(1)) - self._stopwatch.network_us()
        return {**steps, HOST: max(0.0, host)}

    def _outputs_for(self, images: int) -> Outputs:
        outputs = self._outputs.get(images)
        if outputs is None:
            outputs = self._outputs[images] = self._loaded.new_outputs(images)
        return outputs

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._refusal(self._closed)

    @contextmanager
    def _working(self, doing: str) -> Iterator[None]:
        """With the device's context current. A driver's error ends the session, one of a compiler does not."""
        try:
            with self._device:
                yield
        except (CompilerError, UnsupportedError) as error:
            raise BackendError(f"backend {NAME}: {error}") from error
        except self._errors as error:
            raise self._failed(error, doing) from error

    def _failed(self, error: Exception, doing: str) -> SessionLostError:
        """Free everything. The error may have made the context unusable, so nothing is retried in it."""
        reason = driver_error(self._device.cuda, error, doing)
        self._closed, self._refusal = f"{reason}; the session is closed", SessionLostError
        with suppress(self._errors):  # errors that follow have the same reason
            self._release()
        return SessionLostError(str(reason))

    def _release(self) -> None:
        self._outputs.clear()
        try:
            if self._device.works():
                with self._device:
                    self._free()
        finally:
            self._device.close()

    def _free(self) -> None:
        if self._stopwatch is not None:
            self._stopwatch.close()
            self._stopwatch = None
        if self._frames is not None:
            self._frames.close()
            self._frames = None
        self._loaded.close()
