"""The threads of one image: a sleeping one is woken on another processor than its caller's."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from edgemeta.plugins.measure import random_image
from edgemeta.plugins.registry import choose
from tests.conformance.networks import Case

_PATIENCE = 20.0
"""Seconds: a busy machine gives a thread that spins little time, and only then it sleeps."""


@pytest.fixture
def two_processors() -> Iterator[set[int]]:
    """The two processors that this thread may use; one, where the machine or its container has no more.

    First the thread gets all: a library may have left fewer to it.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    yield os.sched_getaffinity(0)
    os.sched_setaffinity(0, before)


def wait_until_asleep(threads: set[int]) -> None:
    """Until each waits for its next call."""
    end = time.monotonic() + _PATIENCE
    for thread in threads:
        while Path(f"/proc/self/task/{thread}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < end
            time.sleep(0.001)


def all_threads() -> set[int]:
    """Of this process."""
    return {int(task.name) for task in Path("/proc/self/task").iterdir()}


@pytest.mark.parametrize("threads", [2, 3])
def test_a_sleeping_thread_is_not_woken_on_its_callers_processor(
    resnet8: Case, two_processors: set[int], threads: int
) -> None:
    known = all_threads()
    with closing(choose("cpu").compile(resnet8.model, {"threads": threads})) as session:
        image = random_image(resnet8.model)
        helpers = all_threads() - known
        assert len(helpers) == threads - 1
        assert all(os.sched_getaffinity(helper) == two_processors for helper in helpers)
        wait_until_asleep(helpers)
        session.run(image)
        masks = [os.sched_getaffinity(helper) for helper in helpers]
        assert all(len(mask) == 1 and mask <= two_processors for mask in masks)
        assert masks == masks[:1] * len(masks)


def test_the_callers_only_processor_is_shared(resnet8: Case, two_processors: set[int]) -> None:
    own = {min(two_processors)}
    os.sched_setaffinity(0, own)
    known = all_threads()
    with closing(choose("cpu").compile(resnet8.model, {"threads": 2})) as session:
        (helper,) = all_threads() - known
        wait_until_asleep({helper})
        session.run(random_image(resnet8.model))
        assert os.sched_getaffinity(helper) == own
