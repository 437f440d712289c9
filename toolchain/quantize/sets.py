"""Disjoint sets, which are joined (union-find)."""

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=Hashable)


class Sets(Generic[Item]):
    """Each item is a set of its own at first."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._parent = {item: item for item in items}

    def __iter__(self) -> Iterator[Item]:
        return iter(self._parent)

    def of(self, item: Item) -> Item:
        """The representative of an item's set."""
        while self._parent[item] != item:
            item = self._parent[item]
        return item

    def join(self, one: Item, other: Item) -> None:
        """Make one set of two; the representative of `one` stays."""
        self._parent[self.of(other)] = self.of(one)
