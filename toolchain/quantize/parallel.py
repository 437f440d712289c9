"""Work on images by as many threads as there are processors: NumPy computes without the interpreter's lock."""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """The results of `work`, in the order of the items."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(work, items))
