"""Makes the next items of a sequence while the last one is used."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 3


def ahead(items: Iterable[T]) -> Iterator[T]:
    """The items in their order; a thread makes up to three ahead, one after the other. What it raises is raised."""
    source = iter(items)
    with ThreadPoolExecutor(1) as pool:
        waiting = [pool.submit(lambda: list(islice(source, 1))) for _ in range(_DEPTH)]
        while item := waiting.pop(0).result():
            waiting.append(pool.submit(lambda: list(islice(source, 1))))
            yield item[0]
