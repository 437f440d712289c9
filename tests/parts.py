"""Tests that run for every row of a table, many rows in one item: an item costs pytest more than most rows cost.

A part reports each of its rows that fail by name, with its traceback. `--row NAME` runs only the row of that name.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Signature, signature
from typing import Any, Protocol, TypeVar

import pytest

from tests.verdicts import PROVED, is_kept, keep

Marks = tuple[pytest.MarkDecorator, ...]


PASSED = pytest.StashKey[list[str]]()


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
    rows: Mapping[str, Any],
    size: int = 32,
    marks: Callable[[str], Marks] = lambda name: (),
    keeps_verdicts: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test, whose first argument is a row, for all rows: at most `size` of them, of equal `marks`, in an item.

    Its other arguments are fixtures, which the rows of an item share. A row that skips ends its item. keeps_verdicts:
    for costly proofs; a row that has passed in the same circumstances (tests/verdicts.py) does not run again.
    """
    groups: dict[str, list[str]] = {}  # marks have no hash
    for name in rows:
        groups.setdefault(str(marks(name)), []).append(name)
    divided = [names[start : start + size] for names in groups.values() for start in range(0, len(names), size)]
    parts = [pytest.param(part, marks=marks(part[0]), id=f"{part[0]}..{part[-1]}") for part in divided]

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @wraps(test)
        def run(table_rows: Sequence[str], subtests: pytest.Subtests, request: Any, **fixtures: Any) -> None:
            for name in rows_to_run(request.node):
                try:
                    test(rows[name], **fixtures)
                except (Exception, pytest.fail.Exception):
                    with subtests.test(name):  # only of a failure: it takes milliseconds
                        raise
                else:
                    request.node.stash.setdefault(PASSED, []).append(name)

        own = list(signature(run, follow_wrapped=False).parameters.values())[:-1]
        shared = list(signature(test).parameters.values())[1:]
        run.__signature__ = Signature([*own, *shared])  # type: ignore[attr-defined]
        run.keeps_verdicts = keeps_verdicts  # type: ignore[attr-defined]
        return pytest.mark.parametrize("table_rows", parts)(run)

    return decorate


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--row NAME`."""
    parser.addoption("--row", metavar="NAME", help="of tests that run for every row of a table: only this row")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With `--row`, leave out what has no such row."""
    if (row := config.getoption("--row")) is None:
        return
    having = [item for item in items if row in rows_of(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in having])
    items[:] = having


def rows_of(item: pytest.Item) -> Sequence[str]:
    """The rows of a part; none of an item that is no part."""
    rows: Sequence[str] = item.callspec.params.get("table_rows", ()) if hasattr(item, "callspec") else ()
    return rows


def keeps_verdicts_of(item: pytest.Item) -> bool:
    """Whether the rows of an item that have passed need not run again."""
    return getattr(getattr(item, "function", None), "keeps_verdicts", False)


def rows_to_run(item: pytest.Item) -> list[str]:
    """Those whose verdict is not known."""
    chosen = item.config.getoption("--row")
    rows = [row for row in rows_of(item) if chosen in (None, row)]
    return [row for row in rows if not is_kept(item, row)] if keeps_verdicts_of(item) else rows


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A part of which nothing is left to prove needs no fixtures."""
    if keeps_verdicts_of(item) and not rows_to_run(item):
        pytest.skip(PROVED)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """What fixtures find at their end counts, too."""
    yield
    if keeps_verdicts_of(item):
        for row in item.stash.get(PASSED, []):
            keep(item, row)
