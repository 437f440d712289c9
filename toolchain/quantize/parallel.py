"""Work by as many threads, or processes, as there are processors: threads that do little at a time are no faster."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from edgemeta.toolchain.child import ChildError, in_child
from edgemeta.toolchain.errors import QuantizeError

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


def by_processes(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """As `in_order`, each by a process of its own where processors are several. Raises what the work raises."""
    if processors() == 1:
        yield from map(work, items)
        return

    def outcome(item: Item) -> Result | _Raised:
        try:
            return work(item)
        except Exception as error:  # noqa: BLE001 - raised again by this process
            return _Raised(error)

    try:
        for found in in_order(lambda item: in_child(partial(outcome, item), None, 1e6), items):
            if isinstance(found, _Raised):
                raise found.error
            yield found
    except ChildError as error:
        raise QuantizeError(str(error)) from error


@dataclass(frozen=True)
class _Raised:
    error: Exception


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
