"""Calls after a pause: what is timed, and how the times are summed up."""

import os
from functools import partial

import pytest

from benchmarks.cold_call import empty_calls, medians, seconds_of


def test_the_empty_function_is_called_with_each_kind_of_arguments() -> None:
    found = {name: call() for name, call in empty_calls().items()}
    assert found == dict.fromkeys(("arguments converted", "arguments bound", "no arguments"), os.getpid())


@pytest.mark.parametrize("pause", [0.0, 0.001])
def test_medians_are_microseconds_of_each_call(pause: float) -> None:
    calls = {"a": partial(next, iter([1e-6, 9e-6, 2e-6])), "b": partial(next, iter([4e-6] * 3))}
    assert medians(calls, 3, pause) == {"a": 2.0, "b": 4.0}


def test_a_call_is_timed() -> None:
    assert 0 < seconds_of(lambda: sum(range(1000)))() < 1
