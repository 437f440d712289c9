"""ARM's instruction sets under qemu: each is found at run time, can be forced, and equals the reference everywhere."""

from collections.abc import Iterator
from contextlib import closing
from ctypes import c_void_p
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cpu import preprocess as native
from edgemeta.kernels.cpu import program
from edgemeta.kernels.cpu.library import ISA_NAMES
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.kernels.cpu.program import OpenError, Program
from edgemeta.model import reference
from edgemeta.model.graph import Model, Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import preprocess
from edgemeta.plugins.api import Outputs
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import MACHINES, Machine, MissingToolError
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs

pytestmark = pytest.mark.gate("a minute of processor time each: cross compiling, and the table on emulated processors")

Libraries = dict[Machine, EmulatedLibrary]


@pytest.fixture(scope="module")
def libraries() -> Iterator[Libraries]:
    """The library on every machine."""
    started = {}
    for machine in MACHINES:
        try:
            started[machine] = machine.start()
        except MissingToolError as error:
            pytest.skip(str(error))
    yield started
    for library in started.values():
        library.stop()


def run(model: Model, batch: NDArray[Any], isa: str, threads: int = 1) -> Outputs:
    kinds = model.output_types
    outputs = tuple(np.empty((len(batch), *kind.shape), kind.dtype) for kind in kinds)
    with closing(Program(model, isa, threads)) as opened:
        opened.run(len(batch), batch.ctypes.data, (c_void_p * len(kinds))(*(each.ctypes.data for each in outputs)))
    return outputs


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_instruction_set_equals_the_reference(
    case: Case, libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]
    for machine, library in libraries.items():
        monkeypatch.setattr(program, "library", lambda library=library: library)
        for batch, outputs in expected:
            assert_equal_outputs(run(case.model, batch, machine.isa), outputs, machine.processor)


def test_each_machine_finds_its_best_and_refuses_better_ones(
    libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = CASES[0].model
    for machine, library in libraries.items():
        assert ISA_NAMES[library.em_best_isa()] == machine.isa
        monkeypatch.setattr(program, "library", lambda library=library: library)
        has = ["portable", *(each.isa for each in MACHINES if each.architecture is machine.architecture)]
        for isa in ("auto", *has[: has.index(machine.isa) + 1]):
            with closing(Program(model, isa, 1)) as opened:
                assert opened.isa == (machine.isa if isa == "auto" else isa)
        for isa in (*has[has.index(machine.isa) + 1 :], "avx2"):
            with pytest.raises(OpenError, match=f"this machine has no {isa}, its best is {machine.isa}"):
                Program(model, isa, 1)


def test_two_threads_give_what_one_gives(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in CASES[::10]:
        batch = next(case.batches())[1]
        expected = reference.run(case.model, batch)
        for machine, library in libraries.items():
            monkeypatch.setattr(program, "library", lambda library=library: library)
            assert_equal_outputs(run(case.model, batch, machine.isa, threads=2), expected, machine.processor)
            first = [output[:1] for output in expected]
            assert_equal_outputs(run(case.model, batch[:1], machine.isa, threads=2), first, machine.processor)


def test_frames_are_preprocessed_as_defined(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    plain = (np.arange(256) - 128).astype(np.int8)[np.newaxis]
    for i in range(60):
        height, width, *size = map(int, rng.integers(1, 90, 4))
        frame = rng.integers(0, 256, (height, width, 3)[: 2 + i % 2]).astype(np.uint8)
        colour = ("rgb", "bgr", "gray", "r", "ya", "bgra", "yrgb")[i % 7]
        target = TensorType((size[0], size[1], len(channels_of(colour))))
        table = plain if i % 3 else rng.integers(-128, 128, (target.shape[2], 256)).astype(np.int8)
        preprocessing = Preprocessing(("center", "full", "letterbox")[i % 5 % 3], colour, table)
        expected = preprocess(frame, target, preprocessing)
        for machine, library in libraries.items():
            monkeypatch.setattr(native, "library", lambda library=library: library)
            tensor = np.zeros(target.shape, np.int8)
            Resizer(frame.shape, target, preprocessing, machine.isa).run(frame, tensor)
            np.testing.assert_array_equal(tensor, expected, err_msg=f"{machine.processor}: {i}")
