"""The exact forms of each convolution of a model: predicted and measured, and which of them a measurement chooses."""

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from ctypes import c_void_p
from dataclasses import dataclass, field

import numpy as np

from edgemeta.kernels.cpu.library import FORMS, ISA_NAMES
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import Model
from edgemeta.model.layers import Weighted

_WORTH = 0.95
"""A form replaces the planner's where it takes at most so much of its time, in both halves of the runs."""
_LEAST_RUNS = 10
NEAR_BYTES = 512 * 1024
"""Weights of a layer that a second cache holds."""
_PRODUCTS = {
    "plain": dict.fromkeys(ISA_NAMES, 1.0),
    "winograd": {"avx2": 16 / 36, "avxvnni": 0.5, "avx512vnni": 0.5, "neon": 1 / 3},
}
"""Time of a form's multiplications as a share of plain's: how many there are, by how many an instruction makes."""


@dataclass(frozen=True)
class LayerForms:
    """One convolution. step: the names of its layers, as `Program.profile` has them. chosen: what the planner took.

    halves: least microseconds of each form in each half of the runs. predicted: time of each form as a share of
    `plain`'s, where the planner predicts one. description: of the chosen form; weight_bytes: of its weights.
    multiply_adds: of the layer as the model has it; 0 where fusion made another one. bytes: of each form's weights.
    """

    step: str
    chosen: str
    description: str
    weight_bytes: int
    predicted: Mapping[str, float]
    halves: Mapping[str, list[float]] = field(default_factory=dict)
    multiply_adds: int = 0
    bytes: Mapping[str, int] = field(default_factory=dict)

    @property
    def measured(self) -> dict[str, float]:
        """Least microseconds of each form."""
        return {form: min(halves) for form, halves in self.halves.items()}

    def floors(self, isa: str, rate: float) -> dict[str, float]:
        """Microseconds of the multiplications alone of each form; rate: of plain's multiply-adds in a microsecond."""
        shares = {form: _PRODUCTS.get(form, {}).get(isa, 0.0) for form in self.halves}
        return {form: share * self.multiply_adds / rate for form, share in shares.items() if share * self.multiply_adds}

    def reading(self, near: float, far: float) -> dict[str, float]:
        """Microseconds of reading each form's weights once; near, far: bytes in one, of few weights and of more."""
        return {form: size / (near if size <= NEAR_BYTES else far) for form, size in self.bytes.items()}

    @property
    def fastest(self) -> str:
        """The planner's form, unless another one was clearly faster in both halves of the runs."""
        own = self.halves[self.chosen]
        better = [
            form
            for form, halves in self.halves.items()
            if all(time <= _WORTH * base for time, base in zip(halves, own, strict=True))
        ]
        return min(better, key=lambda form: min(self.halves[form]), default=self.chosen)


def measure_forms(
    model: Model,
    isa: str,
    threads: int,
    runs: int,
    progress: Progress | None = None,
    seconds: float = math.inf,
    cold: bool = False,
) -> list[LayerForms]:
    """Time every form of every convolution, `runs` times one random image, or so often as `seconds` last, in turn.

    cold: each after writing more than caches hold, as the frames of a camera find them; else right after another one.
    Other work on the machine disturbs the least of many interleaved runs little. Raises LibraryError, OpenError.
    """
    kind = model.input
    image = np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (1, *kind.shape)).astype(kind.dtype)
    outputs = [np.empty((1, *each.shape), each.dtype) for each in model.output_types]
    addresses = (c_void_p * len(outputs))(*(each.ctypes.data for each in outputs))
    with ExitStack() as stack:
        programs = {form: stack.enter_context(closing(Program(model, isa, threads, form))) for form in FORMS}
        layers = list(_layers(programs, model))
        run, begin, evicting = 0, time.monotonic(), np.zeros(48 << 20 if cold else 0, np.uint8)
        while run < runs:
            for form, program in programs.items():
                program.profile(image.ctypes.data, addresses)  # brings its weights back into the caches
                evicting += 1
                times = program.profile(image.ctypes.data, addresses)
                for layer in layers:
                    _keep_least(layer, form, times[layer.step], run * 2 // runs)
            if run == 0 and seconds < math.inf:
                runs = min(runs, max(_LEAST_RUNS, int(seconds / (time.monotonic() - begin))))
            run += 1
            if progress is not None:
                progress(run, runs)
    return layers


def _layers(programs: Mapping[str, Program], model: Model) -> Iterator[LayerForms]:
    """Each convolution with the forms that it can take; one that has a single form is in the first program only."""
    work = {
        each.name: math.prod((*each.weights.shape, *each.output.shape[:2]))
        for each in model.layers
        if isinstance(each, Weighted)
    }
    forms = {name: program.forms() for name, program in programs.items()}
    for step, planned in forms[FORMS[0]].items():
        chosen, about, first = planned.name, planned.description, step.partition("+")[0]
        taken = {chosen: planned} | {name: each[step] for name, each in forms.items() if each[step].name == name}
        predicted = {name: each.predicted for name, each in taken.items() if each.predicted > 0}
        empty: dict[str, list[float]] = {name: [] for name in taken}
        sizes = {name: each.weight_bytes for name, each in taken.items()}
        yield LayerForms(step, chosen, about, planned.weight_bytes, predicted, empty, work.get(first, 0), sizes)


def _keep_least(layer: LayerForms, form: str, microseconds: float, half: int) -> None:
    """form: of the program. The first program runs the planner's form, under its own name."""
    name = layer.chosen if form == FORMS[0] else form
    if name not in layer.halves or (name == layer.chosen and form != FORMS[0]):
        return
    halves = layer.halves[name]
    if len(halves) <= half:
        halves.append(microseconds)
    halves[half] = min(halves[half], microseconds)
