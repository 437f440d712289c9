"""The promises of docs/reliability.md: each result is linked by the page, where the table is not, and has a command."""

from pathlib import Path

from reliability.table import rows, table


def test_every_promise_has_a_command_and_its_result_a_link_in_the_page(repository: Path) -> None:
    page = (repository / "docs" / "reliability.md").read_text("utf-8")
    made = table().splitlines()[2:]
    assert len(made) > 15
    for row, line in zip(rows(), made, strict=True):
        assert line.startswith(f"| {row.promise} | {row.measured} | `")
        assert f"(../benchmarks/results/{row.result}.json)" in page
