"""The options in docs/commands.md are those of the commands."""

import re
import subprocess
import sys
from pathlib import Path

from edgemeta.cli.option_table import commands, options_of, replaced, sections


def test_the_page_has_the_options_of_all_commands(repository: Path) -> None:
    """Where it has not: python -m edgemeta.cli.option_table docs/commands.md."""
    page = (repository / "docs" / "commands.md").read_text("utf-8")
    assert page == replaced(page)


def test_every_option_of_every_command_is_in_the_page(repository: Path) -> None:
    page = (repository / "docs" / "commands.md").read_text("utf-8")
    counted = 0
    for words, command in commands():
        part = page.partition(f"### edgemeta {'predict' if words == 'classify' else words}\n")[2].partition("\n#")[0]
        for option in options_of(command):
            counted += 1
            for name in option.opts:
                assert re.search(rf"^\| `(.*, )?{re.escape(name)}[ `,]", part, re.MULTILINE), f"{words} {name}"
    assert counted > 70


def test_the_command_writes_the_options_and_leaves_the_rest_of_the_page(tmp_path: Path, repository: Path) -> None:
    page = (repository / "docs" / "commands.md").read_text("utf-8")
    (tmp_path / "page.md").write_text(page.replace("`--held-out PATH`", "`--held-up PATH`"), "utf-8")
    subprocess.run([sys.executable, "-m", "edgemeta.cli.option_table", str(tmp_path / "page.md")], check=True)
    assert (tmp_path / "page.md").read_text("utf-8") == page


def test_rows_have_values_meaning_and_default() -> None:
    rows = sections().splitlines()
    for row in (
        "| `--scheme paper\\|auto\\|binary\\|incremental` | Quantization scheme. | `auto` |",
        "| `--images, --frames N` | Number of images used, evenly chosen. | 200; of a data set 1000 |",
        "| `--key FILE` | Private key. | required |",
    ):
        assert row in rows
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows if row.startswith("|"))


def test_every_option_says_what_it_does() -> None:
    assert [
        f"{words} {each.opts}" for words, command in commands() for each in options_of(command) if not each.help
    ] == []
