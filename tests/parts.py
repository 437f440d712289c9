"""Tests that run for every row of a table, many rows in one item: an item costs pytest more than most rows cost.

A part reports each of its rows that fail by name, with its traceback. `--row NAME` runs only the row of that name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any, Protocol, TypeVar

import pytest

Marks = tuple[pytest.MarkDecorator, ...]


class Named(Protocol):
    """A row that knows its name, as a case of the conformance table does."""

    @property
    def name(self) -> str:
        """Unique in its table."""
        ...


N = TypeVar("N", bound=Named)


def by_name(rows: Iterable[N]) -> dict[str, N]:
    """A table of rows that have names."""
    return {row.name: row for row in rows}


def in_parts(
    rows: Mapping[str, Any], size: int = 32, marks: Callable[[str], Marks] = lambda name: ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test, whose first argument is a row, for all rows: at most `size` of them, of equal `marks`, in an item.

    Its other arguments are fixtures, which the rows of an item share. A row that skips ends its item.
    """
    groups: dict[str, list[str]] = {}  # marks have no hash
    for name in rows:
        groups.setdefault(str(marks(name)), []).append(name)
    divided = [names[start : start + size] for names in groups.values() for start in range(0, len(names), size)]
    parts = [pytest.param(part, marks=marks(part[0]), id=f"{part[0]}..{part[-1]}") for part in divided]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(part: Sequence[str], subtests: pytest.Subtests, pytestconfig: pytest.Config, **fixtures: Any) -> None:
            chosen = pytestconfig.getoption("--row")
            for name in part if chosen is None else [chosen]:
                try:
                    test(rows[name], **fixtures)
                except (Exception, pytest.fail.Exception):
                    with subtests.test(name):  # only of a failure: it takes milliseconds
                        raise

        own = list(signature(run, follow_wrapped=False).parameters.values())[:-1]
        shared = list(signature(test).parameters.values())[1:]
        run.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("part", parts)(run)

    return decorate


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--row NAME`."""
    parser.addoption("--row", metavar="NAME", help="of tests that run for every row of a table: only this row")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--row`, leave out what has no such row."""
    if (row := config.getoption("--row")) is None:
        return
    having = [item for item in items if isinstance(item, pytest.Function) and has_row(item, row)]
    config.hook.pytest_deselected(items=[item for item in items if item not in having])
    items[:] = having


def has_row(item: pytest.Function, row: str) -> bool:
    """Whether an item is a part with this row."""
    return hasattr(item, "callspec") and row in item.callspec.params.get("part", ())
