"""docs/figures.md: which program printed which figure, as the pages and the result files say."""

import json
from pathlib import Path

import pytest

from tools import figures


def test_every_program_of_the_table_is_in_the_repository(repository: Path) -> None:
    for result in figures.results(repository).values():
        words = result.command.split()
        named = [word for word in words if "/" in word and word.endswith((".py", ".sh"))]
        named += [f"{words[words.index('-m') + 1].replace('.', '/')}.py"] if "-m" in words else []
        assert named, result.command
        assert [name for name in named[:1] if not (repository / name).exists()] == [], result.name


@pytest.fixture
def small(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "kernels").mkdir()
    (tmp_path / figures.RESULTS).mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Name\n\n## How `fast`?\n\n[5 s](benchmarks/results/speed.md)\n")
    record = {"command": "python benchmarks/speed.py", "date": "2026-11-27", "machine": {"processor": "Z80"}}
    (tmp_path / figures.RESULTS / "speed.json").write_text(json.dumps(record))
    return tmp_path


def test_a_row_names_section_program_result_date_and_processor(small: Path) -> None:
    assert figures.table(small).splitlines()[2:] == [
        "| [README: How fast?](../README.md#how-fast) | `python benchmarks/speed.py` "
        "| [speed](../benchmarks/results/speed.json) | 2026-11-27 | Z80 |"
    ]


def test_a_result_that_no_page_links_is_named(small: Path) -> None:
    (small / "README.md").write_text("# Name\n")
    with pytest.raises(SystemExit, match="speed: no page links it"):
        figures.table(small)


def test_a_link_to_a_result_that_is_not_there_is_named(small: Path) -> None:
    (small / "docs" / "page.md").write_text("[7 s](../benchmarks/results/other.md)\n")
    with pytest.raises(SystemExit, match=r"docs/page\.md: links the result 'other'"):
        figures.table(small)
