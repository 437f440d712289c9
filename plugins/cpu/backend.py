"""Runs models in the C++ library of `kernels.cpu`.

Options: `threads` (1 .. 256, default 1): a batch is divided by images, a single image by rows; `isa` (auto, portable,
avx2, avxvnni, avx512vnni, neon, dotprod, i8mm; default auto): the instruction set, refused if the machine does not
support it; `forms` (a file that `edgemeta bench --layers --save` wrote): the measured choices in it for the model, the
instruction set and the processor, if there are any, replace the planner's; `measure` (default false): where that file
has none or is missing, the first start measures cold calls, for about two seconds, and keeps them there.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_void_p
from pathlib import Path

import numpy as np

from edgemeta.kernels.cpu.form_file import FormFileError, chosen_forms, keep_forms
from edgemeta.kernels.cpu.layer_forms import measure_forms
from edgemeta.kernels.cpu.library import ISA_NAMES, LibraryError, best_isa
from edgemeta.kernels.cpu.program import OpenError, Program
from edgemeta.kernels.lowering.plan_bytes import unsupported
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, Batch, OptionError, Outputs, Probe, Session
from edgemeta.plugins.options import choice, reject_unknown, whole_number
from edgemeta.plugins.session import check_batch

_log = logging.getLogger(__name__)

_RUNS, _SECONDS = 100, 2.0
"""Of a measurement at the first start."""

_NO_BATCH = np.empty(0, np.uint8)
"""Stands for no batch: callers do not have it."""

_SCORES = {"portable": 10, "avx2": 20, "avxvnni": 25, "avx512vnni": 30, "neon": 20, "dotprod": 30, "i8mm": 32}


class CpuSession:
    """A model packed for this machine. It returns the same arrays as long as the batch size stays the same."""

    def __init__(self, name: str, model: Model, program: Program) -> None:
        self._name = name
        self._model = model
        self._program = program
        self._outputs: Outputs = ()
        self._addresses = (c_void_p * 0)()
        # A preprocessor returns the same array for every frame, so it is checked, and the call prepared, only once.
        # Holding a reference keeps its memory valid.
        self._batch: Batch = _NO_BATCH
        self._call: Callable[[], None]  # runs `_batch`, if that is one

    @property
    def isa(self) -> str:
        """Name of the instruction set in use."""
        return self._program.isa

    def run(self, batch: Batch) -> Outputs:
        """As `Session.run`."""
        if batch is not self._batch:
            self._prepare(batch)
        self._call()
        return self._outputs

    def profile(self, image: Batch) -> dict[str, float]:
        """Run a batch of one and return the microseconds of every step after fusion, in execution order."""
        self._prepare(image)
        if len(image) != 1:
            raise BackendError(f"backend {self._name}: a profile takes one image, the batch has {len(image)}")
        return self._program.profile(image.ctypes.data, self._addresses)

    def forms(self) -> dict[str, str]:
        """How each convolution runs and why, and the bytes of its weights in memory, by the names of `profile`."""
        return {
            name: f"{each.description}; {each.weight_bytes:,} bytes" for name, each in self._program.forms().items()
        }

    def close(self) -> None:
        """As `Session.close`."""
        self._program.close()
        self._batch = _NO_BATCH

    def _prepare(self, batch: Batch) -> None:
        if self._program.closed:
            raise BackendError(f"backend {self._name}: the session is closed")
        check_batch(self._name, self._model, batch)
        self._batch = _NO_BATCH
        if not self._outputs or len(self._outputs[0]) != len(batch):
            kinds = self._model.output_types
            self._outputs = tuple(np.empty((len(batch), *kind.shape), kind.dtype) for kind in kinds)
            self._addresses = (c_void_p * len(kinds))(*(output.ctypes.data for output in self._outputs))
        self._call = self._program.bind(len(batch), batch.ctypes.data, self._addresses)
        self._batch = batch


class CpuBackend:
    """As `Backend`; the module's docstring lists the options.

    isas: the instruction sets that may be forced, by their names in the library.
    """

    def __init__(self, name: str = "cpu", isas: Sequence[str] = ISA_NAMES[1:]) -> None:
        self.name = name
        self._isas = isas

    def probe(self) -> Probe:
        """Available if the library can be loaded; the reason names the instruction set."""
        try:
            isa = best_isa()
        except LibraryError as error:
            return Probe(False, str(error))
        return Probe(True, f"C++ kernels, {isa}", _SCORES[isa])

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: the layers that the library has an operator for."""
        return unsupported(layer, inputs[0].shape)

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """As `Backend.compile`."""
        reject_unknown(self.name, options, ("threads", "isa", "forms", "measure"))
        threads = whole_number(self.name, options, "threads", 1, 1, 256)
        isa = choice(self.name, options, "isa", "auto", ("auto", *self._isas))
        file = options.get("forms")
        if file is not None and not isinstance(file, str):
            raise OptionError(f"backend {self.name}: option forms is {file!r}, expected the name of a file")
        measures = options.get("measure", False)
        if not isinstance(measures, bool) or (measures and not file):
            raise OptionError(
                f"backend {self.name}: option measure is {measures!r}, expected false, or true with forms"
            )
        try:
            forms = (
                _forms_of(Path(file), model, best_isa() if isa == "auto" else isa, threads, measures) if file else {}
            )
            return CpuSession(self.name, model, Program(model, isa, threads, forms=forms))
        except FormFileError as error:
            raise OptionError(f"backend {self.name}: option forms: {error}") from error
        except OpenError as error:
            raise OptionError(f"backend {self.name}: {error}") from error
        except (LibraryError, UnsupportedError) as error:
            raise BackendError(f"backend {self.name}: {error}") from error


def _forms_of(file: Path, model: Model, isa: str, threads: int, measures: bool) -> Mapping[str, str]:
    """The choices of a file; measured now and kept there if it has none and `measures` is set."""
    forms = {} if measures and not file.exists() else chosen_forms(file, model.digest, isa)
    if measures and not forms:
        found = measure_forms(model, isa, threads, _RUNS, seconds=_SECONDS, cold=True)
        forms = {each.step: each.fastest for each in found}
        keep_forms(file, model.digest, isa, forms)
        changed = ", ".join(f"{each.step} {each.fastest}" for each in found if each.fastest != each.chosen)
        _log.info(
            "%s: forms on %s measured and kept in %s; not as planned: %s", model.name, isa, file, changed or "none"
        )
    return forms


BACKEND = CpuBackend()
