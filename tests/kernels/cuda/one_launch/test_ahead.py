"""Which constants are copied ahead of their phase, to which places of shared memory, and by which threads."""

from functools import cache
from math import prod

import pytest

from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.ahead import FREE, UNIT, Ahead, copied_ahead
from edgemeta.kernels.cuda.one_launch.plan import in_phases, one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import Constant, Launch
from edgemeta.model.file import load
from edgemeta.model.zoo import find

THREADS, USED, LIMIT = 320, 5376, 227 << 10


@cache
def phases() -> tuple[tuple[Launch, ...], ...]:
    return in_phases(lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_90"]))


def ahead(limit: int = LIMIT, threads: int = THREADS) -> Ahead:
    return copied_ahead(phases(), threads, USED, limit)


def test_weights_and_channels_of_phases_after_one_without_barriers() -> None:
    """Phase 0 is the direct convolution, whose barriers hold every thread; in phase 7 no kernel reads from anywhere."""
    copies = ahead().copies
    assert sorted(copies) == [2, 3, 4, 5, 6]
    assert [each.name for each in copies[5].places] == [
        "conv7.weights",
        "conv7.channels",
        "conv6.weights",
        "conv6.channels",
    ]
    assert {each.first for each in copies.values()} == {128}, "the threads that the convolutions leave idle"


def test_a_phase_is_copied_where_neither_it_nor_the_one_before_is_read() -> None:
    found = ahead()
    spans = {
        number: [(start, start + constant.data.nbytes / UNIT) for constant, start in copy.places.items()]
        for number, copy in found.copies.items()
    }
    for number, own in spans.items():
        others = [*own, *spans.get(number + 1, [])]
        for n, (start, end) in enumerate(others):
            assert USED / UNIT <= start < end <= found.end / UNIT
            assert all(end <= other[0] or other[1] <= start for other in others[n + 1 :]), "two constants overlap"
    assert found.end <= LIMIT


@pytest.mark.parametrize(("limit", "copied"), [(USED, []), (USED + 2 * 22 * 1024, [2, 3, 4]), (LIMIT, [2, 3, 4, 5, 6])])
def test_what_does_not_fit_stays_in_global_memory(limit: int, copied: list[int]) -> None:
    """The constants of phases 2 to 6 have 2.8, 7, 10, 24 and 38 KB."""
    found = ahead(limit)
    assert sorted(found.copies) == copied
    assert found.end <= max(limit, USED)


def test_blocks_without_idle_warps_copy_nothing() -> None:
    assert ahead(threads=128) == Ahead({}, USED)


@pytest.mark.gate("5 s: three shipped models are lowered twice")
def test_the_shared_memory_is_that_of_the_launch_and_leaves_room_for_all_resident_blocks() -> None:
    for name in ("resnet8-cifar10", "resnet8-cifar10-paper", "backbone64"):
        for architecture in (ARCHITECTURES["sm_87"], ARCHITECTURES["sm_90"]):
            plan = lower(load(find(name)), architecture)
            forms = [one_launch] if architecture.cluster_blocks == 1 else [one_launch, one_cluster]
            for form in forms:
                (launch,) = form(plan).launches
                resident = launch.tile["per_multiprocessor"]
                assert resident * (launch.shared_bytes + 1024) <= architecture.resident_shared_bytes
                assert launch.shared_bytes <= architecture.shared_bytes
                assert "copy_ahead<" in launch.source.text


def test_the_jetson_nano_copies_nothing() -> None:
    """Its kernels are others; the code of its one launch has no copies."""
    (launch,) = one_launch(lower(load(find("resnet8-cifar10")), ARCHITECTURES["sm_53"])).launches
    assert "copy_ahead" not in launch.source.text
    assert launch.shared_bytes == max(each.shared_bytes for each in launch.joins)


def test_kernels_that_are_free_have_no_barrier() -> None:
    for path in FREE:
        assert "__syncthreads" not in (SOURCES / path).read_text("utf-8")
    assert all(prod(launch.block) == 128 for phase in phases() for launch in phase if launch.source.path in FREE)
    assert all(isinstance(each, Constant) for copy in ahead().copies.values() for each in copy.places)
