"""A set of integers stored as spans: any number of consecutive integers takes one span."""

from bisect import bisect_right
from collections.abc import Iterator


class Spans:
    """Integers as sorted spans (first, last), which neither overlap nor touch."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        index = bisect_right(self._firsts, number) - 1
        return index >= 0 and number <= self._lasts[index]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(list(self._firsts), list(self._lasts), strict=True)

    def add(self, number: int) -> None:
        """Add a number, unless it is in the set."""
        if number in self:
            return
        index = bisect_right(self._firsts, number)  # of the span after it
        self._count += 1
        follows = index > 0 and self._lasts[index - 1] == number - 1
        precedes = index < len(self._firsts) and self._firsts[index] == number + 1
        if follows and precedes:
            self._lasts[index - 1] = self._lasts.pop(index)
            del self._firsts[index]
        elif follows:
            self._lasts[index - 1] = number
        elif precedes:
            self._firsts[index] = number
        else:
            self._firsts.insert(index, number)
            self._lasts.insert(index, number)

    def end_of_run(self, number: int) -> int:
        """Return the last number of the span that contains `number` + 1; `number` if there is none."""
        index = bisect_right(self._firsts, number + 1) - 1
        return max(number, self._lasts[index]) if index >= 0 else number

    def first_piece(self, width: int) -> tuple[int, int] | None:
        """Return first and last of the lowest span, `width` numbers at most; None if the set is empty."""
        if not self._firsts:
            return None
        first = self._firsts[0]
        return first, min(self._lasts[0], first + width - 1)

    def remove(self, first: int, last: int) -> None:
        """Remove numbers that are all in one span."""
        index = bisect_right(self._firsts, first) - 1
        assert index >= 0, f"{first} is not there"
        begin, end = self._firsts[index], self._lasts[index]
        assert first <= last <= end, f"{first} to {last} is not within {begin} to {end}"
        self._count -= last - first + 1
        left = [(begin, first - 1)] if begin < first else []
        left += [(last + 1, end)] if last < end else []
        self._firsts[index : index + 1] = [one for one, _ in left]
        self._lasts[index : index + 1] = [one for _, one in left]
