"""Work on images by as many threads as there are processors: NumPy computes without the interpreter's lock."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_each(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> list[Result]:
    """The results of `work`, in the order of the items. threads: as `in_order`."""
    return list(in_order(work, items, threads))


def in_order(work: Callable[[Item], Result], items: Iterable[Item], threads: int | None = None) -> Iterator[Result]:
    """Yield the results of `work`, in the order of the items; few of them wait in memory.

    threads: how many, default one for each processor; one is the caller's own.
    """
    threads = threads or processors()
    if threads == 1:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        begun: deque[Future[Result]] = deque()
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) > threads:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
