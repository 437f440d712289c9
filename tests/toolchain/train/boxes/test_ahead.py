"""What is made ahead comes in its order, and what making it raises is raised."""

import time
from collections.abc import Iterator

import pytest

from edgemeta.toolchain.train.boxes.ahead import ahead


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_items_come_in_their_order(count: int) -> None:
    assert list(ahead(range(count))) == list(range(count))


def test_a_few_are_made_before_they_are_asked_for() -> None:
    made: list[int] = []

    def making() -> Iterator[int]:
        for number in range(9):
            made.append(number)
            yield number

    some = ahead(making())
    assert next(some) == 0
    until = time.monotonic() + 60
    while len(made) < 4 and time.monotonic() < until:
        time.sleep(0.001)
    assert made == [0, 1, 2, 3]
    some.close()  # type: ignore[attr-defined]


def test_errors_are_raised_where_the_item_is_asked_for() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    some = ahead(failing())
    assert next(some) == 1
    with pytest.raises(ValueError, match="two"):
        next(some)
