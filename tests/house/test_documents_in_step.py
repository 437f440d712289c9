"""The generated documents are what the code generates, and every table has its place in one page."""

import re
from pathlib import Path

import pytest

from tools.documents import TABLES, differing, filled


def test_all_generated_documents_are_in_step(repository: Path) -> None:
    """Where they are not: python -m tools.documents."""
    assert differing(repository) == []


def test_every_table_is_in_one_page_and_has_rows(repository: Path) -> None:
    pages = [path.read_text("utf-8") for path in (repository / "docs").rglob("*.md")]
    marked = [name for page in pages for name in re.findall(r"^<!-- table: ([\w-]+) -->$", page, re.MULTILINE)]
    assert sorted(marked) == sorted(TABLES)
    for name in TABLES:
        before, table, after = filled(f"Before.\n\n<!-- table: {name} -->\n\nAfter.\n").partition("\n|---|")
        assert before.startswith("Before.\n\n"), name
        assert table, name
        assert after.endswith(("|\n\nAfter.\n", "|\n\n\nAfter.\n")), name


def test_a_marker_of_no_table_is_named() -> None:
    with pytest.raises(SystemExit, match="table 'nothing' is unknown, expected commands, families, figures, formats, "):
        filled("<!-- table: nothing -->\n")
