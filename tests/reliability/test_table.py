"""docs/reliability.md says what the result files say."""

from reliability import table


def test_the_pages_figures_are_those_of_the_result_files() -> None:
    page = table.PAGE.read_text("utf-8")
    assert page == table.page_with(table.table()), "run python reliability/table.py"
    assert table.BEGIN in page
    assert table.END in page
