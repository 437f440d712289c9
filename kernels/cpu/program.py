"""A model in the C++ library, which takes it as one block of bytes and runs it with one call per batch."""

import re
from collections.abc import Callable, Mapping
from ctypes import Array, c_int32, c_void_p
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgemeta.kernels.cpu.library import FORMS, ISA_NAMES, LibraryError, error_buffer, error_text, library
from edgemeta.kernels.lowering.plan_bytes import plan_bytes
from edgemeta.model.graph import Model


class OpenError(LibraryError):
    """The machine does not support the instruction set or cannot start the threads."""


@dataclass(frozen=True)
class Form:
    """The form in which a convolution runs.

    description: its name and the reason for it. weight_bytes: size of its weights in memory. predicted: its time as a
    share of that of the form `plain`; 0 where the planner predicts none.
    """

    description: str
    weight_bytes: int
    predicted: float

    @property
    def name(self) -> str:
        """The description's first word: one of FORMS, or another where there is no choice."""
        return re.split("[:,]", self.description)[0]


class Program:
    """A proved model, planned and packed for one instruction set and a number of threads.

    Holds memory and threads of the library until `close`. Used by one thread at a time. Raises LibraryError if the
    library is missing or memory runs out, OpenError if the machine lacks the instruction set or the threads.
    form: one of FORMS, for the convolutions that it can run; the fastest for the others. forms: another one for the
    convolutions of some steps, by the names that `forms` returns; names that the model lacks are ignored.
    """

    def __init__(
        self, model: Model, isa: str, threads: int, form: str = FORMS[0], forms: Mapping[str, str] | None = None
    ) -> None:
        self._library = library()
        error = error_buffer()
        self._handle: int | None = self._library.em_open(ISA_NAMES.index(isa), threads, error)
        if self._handle is None:
            raise OpenError(error_text(error))
        by_layer = {name: FORMS.index(other) for step, other in (forms or {}).items() for name in step.split("+")}
        plan = plan_bytes(model, FORMS.index(form), by_layer)
        if self._library.em_load(self._handle, plan, len(plan), error) < 0:
            self.close()
            raise LibraryError(error_text(error))
        lines = self._library.em_steps(self._handle).decode().splitlines()
        self._steps = [line.split("\t") for line in lines]  # name, bytes of weights, predicted, form
        self.isa = ISA_NAMES[self._library.em_isa(self._handle)]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle is None

    def run(self, images: int, batch: int, outputs: Array[c_void_p]) -> None:
        """Run C-contiguous images [images, H, W, C] at address `batch`.

        outputs: for each output the address of an array [images, H, W, C] that receives it.
        """
        self.bind(images, batch, outputs)()

    def bind(self, images: int, batch: int, outputs: Array[c_void_p]) -> Callable[[], None]:
        """As `run`, as a call without arguments, to be made until `close` as often as there are images.

        Its arguments are converted to C once: with nothing in the caches, as when a frame comes every 10 ms, that takes
        as long as a tenth of a small network.
        """
        arguments = c_void_p(self._handle), c_int32(images), c_void_p(batch), outputs
        return partial(self._library.em_run, *arguments)

    def profile(self, image: int, outputs: Array[c_void_p]) -> dict[str, float]:
        """Run one image and return the microseconds of every step, by the names of its layers."""
        nanoseconds = np.zeros(len(self._steps), np.int64)
        self._library.em_profile(self._handle, image, outputs, nanoseconds.ctypes.data)
        return {step[0]: time / 1000 for step, time in zip(self._steps, nanoseconds.tolist(), strict=True)}

    def forms(self) -> dict[str, Form]:
        """How each convolution runs, by the names of its step's layers."""
        return {
            name: Form(text, int(weight_bytes), int(predicted) / 1000)
            for name, weight_bytes, predicted, text in self._steps
            if text
        }

    def close(self) -> None:
        """Free memory and threads; a second call does nothing."""
        if self._handle is not None:
            self._library.em_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()
