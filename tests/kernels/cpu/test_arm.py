"""ARM's instruction sets under qemu: each is found at run time, can be forced, and equals the reference everywhere."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from ctypes import c_void_p
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.cpu import preprocess as native
from edgemeta.kernels.cpu import program
from edgemeta.kernels.cpu.library import FORMS, ISA_NAMES
from edgemeta.kernels.cpu.preprocess import Resizer
from edgemeta.kernels.cpu.program import OpenError, Program
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model, Preprocessing, channels_of
from edgemeta.model.layers import TensorType
from edgemeta.model.preprocess import preprocess
from edgemeta.model.tasks import Embedding
from edgemeta.model.weights import FixedWeights
from edgemeta.model.zoo import find
from edgemeta.plugins.api import Outputs
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import MACHINES, Machine, MissingToolError
from tests.conformance.cases import CASES, Case
from tests.conformance.generated import limits, pairs, sums_at_the_ends
from tests.conformance.networks import NetworkBuilder, assert_equal_outputs
from tests.conformance.on_all_cores import reference_outputs
from tests.conformance.operators import OPERATORS, Operator
from tests.parts import by_name, in_parts

pytestmark = [
    pytest.mark.gate("minutes of processor time: cross compiling, and the table on emulated processors"),
    pytest.mark.timeout(900),  # whoever comes first compiles the library, for all
]

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


def run(model: Model, batch: NDArray[Any], isa: str, threads: int = 1, form: str = FORMS[0]) -> Outputs:
    kinds = model.output_types
    outputs = tuple(np.empty((len(batch), *kind.shape), kind.dtype) for kind in kinds)
    with closing(Program(model, isa, threads, form)) as opened:
        opened.run(len(batch), batch.ctypes.data, (c_void_p * len(kinds))(*(each.ctypes.data for each in outputs)))
    return outputs


@in_parts(by_name(CASES), keeps_verdicts=True)
def test_every_instruction_set_equals_the_reference(
    case: Case, libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [(batch, reference.run(case.model, batch)) for _, batch in case.batches()]
    for machine, library in libraries.items():
        monkeypatch.setattr(program, "library", lambda library=library: library)
        for batch, outputs in expected:
            assert_equal_outputs(run(case.model, batch, machine.isa), outputs, machine.processor)


def assert_equal(cases: Iterable[Case], libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    for case in cases:
        batch = np.concatenate([each for _, each in case.batches()])
        expected = reference.run(case.model, batch)
        for machine, library in libraries.items():
            monkeypatch.setattr(program, "library", lambda library=library: library)
            found = run(case.model, batch, machine.isa)
            assert_equal_outputs(found, expected, f"{case.name} {machine.processor}")


def test_every_ordered_pair_with_unlike_zero_points(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal(pairs(0), libraries, monkeypatch)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_every_limit_of_every_field(operator: Operator, libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_equal(limits(operator), libraries, monkeypatch)


@pytest.mark.parametrize("name", ["conv-1x1", "depthwise", "dense"])
def test_accumulators_at_both_ends_of_int32(name: str, libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = next(each for each in OPERATORS if each.name == name)
    assert_equal(sums_at_the_ends(operator), libraries, monkeypatch)


@pytest.mark.parametrize("bits", [(1, 1), (2, 2), (3, 4), (4, 8), (7, 3)], ids=str)
@pytest.mark.parametrize("signed", [False, True])
def test_every_form_of_few_bits_equals_the_reference(
    bits: tuple[int, int], signed: bool, libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = NetworkBuilder(f"few-bits-{bits}", TensorType((6, 7, 5), bits[1], signed, scale=0.05))
    weights, kind = partial(net.fixed, bits=bits[0]), TensorType((1, 1, 1), bits[1], signed, scale=0.05)
    hidden = net.conv(net.start, 21, (1, 1), weights=weights, output=kind)
    case = net.observe(net.conv(hidden, 18, (3, 2), (1, 2), (2, 1, 1, 0), weights=weights, output=kind))
    for (machine, library), form in product(libraries.items(), FORMS):
        monkeypatch.setattr(program, "library", lambda library=library: library)
        for name, batch in case.batches():
            expected = reference.run(case.model, batch)
            assert_equal_outputs(run(case.model, batch, machine.isa, form=form), expected, f"{machine} {form} {name}")


@pytest.mark.parametrize("bits", [2, 4])
def test_binary_bases_equal_the_reference(bits: int, libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    net = NetworkBuilder(f"bases-{bits}", TensorType((6, 7, 5), scale=0.05))
    hidden = net.conv(net.start, 21, (1, 1), output=TensorType((1, 1, 1), bits, signed=False, scale=0.05))
    weights = partial(net.binary, bases=3, reach=40)
    case = net.observe(net.conv(hidden, 18, (3, 2), (1, 2), (2, 1, 1, 0), weights=weights))
    for (machine, library), form in product(libraries.items(), ("fastest", "plain", "planes")):
        monkeypatch.setattr(program, "library", lambda library=library: library)
        for name, batch in case.batches():
            expected = reference.run(case.model, batch)
            assert_equal_outputs(run(case.model, batch, machine.isa, form=form), expected, f"{machine} {form} {name}")


@pytest.mark.parametrize("shape", [(1, 1, 17), (3, 4, 16), (8, 8, 48), (9, 18, 33), (4, 23, 220), (2, 5, 240)], ids=str)
@pytest.mark.parametrize("pattern", ["random", "ends", -128, 127])
def test_winograd_equals_the_reference(
    shape: tuple[int, int, int], pattern: str | int, libraries: Libraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tiles that end outside of the map, sums up to the greatest that the form may have, raw and requantized."""

    def weights(size: tuple[int, ...]) -> FixedWeights:
        rng = np.random.default_rng(7)
        drawn = rng.integers(-128, 128, size) if pattern == "random" else rng.choice([-128, 127], size)
        values = drawn if isinstance(pattern, str) else np.full(size, pattern)
        return FixedWeights(values.astype(np.int8), 8, np.array([2.0**-12]))

    net = NetworkBuilder(f"winograd-{shape}", TensorType(shape, signed=shape[0] % 2 == 0, zero_point=3))
    first = net.conv(net.start, 20, weights=weights, form="table", output=TensorType((1, 1, 1)))
    second = net.conv(first, 20, padding=(2, 1, 1, 2), weights=weights, output=TensorType((1, 1, 1), zero_point=-5))
    case = net.finish_as(Embedding(), net.conv(net.start, 5, weights=weights, form=None), second)
    for name, batch in case.batches():
        expected = reference.run(case.model, batch)
        for machine, library in libraries.items():
            monkeypatch.setattr(program, "library", lambda library=library: library)
            for threads in (1, 2):
                found = run(case.model, batch, machine.isa, threads, "winograd")
                assert_equal_outputs(found, expected, f"{machine.processor} {name} {threads}")


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


def test_the_shipped_network_on_200_images(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(find("resnet8-cifar10"))
    kind = model.input
    images = np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (200, *kind.shape)).astype(kind.dtype)
    expected = reference_outputs(model, images)
    for machine, library in libraries.items():
        monkeypatch.setattr(program, "library", lambda library=library: library)
        assert_equal_outputs(run(model, images, machine.isa), expected, machine.processor)


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
