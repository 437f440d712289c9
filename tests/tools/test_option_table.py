"""The table of options has those of the commands."""

import re

from tools.option_table import PAGES, commands, options_of, purposes, sections


def test_every_option_of_every_command_has_a_row() -> None:
    page = sections()
    counted = 0
    for words, command in commands():
        part = page.partition(f"### edgemeta {'predict' if words == 'classify' else words}\n")[2].partition("\n#")[0]
        for option in options_of(command):
            counted += 1
            for name in option.opts:
                assert re.search(rf"^\| `(.*, )?{re.escape(name)}[ `,]", part, re.MULTILINE), f"{words} {name}"
    assert counted > 70


def test_rows_have_values_meaning_and_default() -> None:
    rows = sections().splitlines()
    for row in (
        "| `--scheme paper\\|auto\\|binary\\|incremental` | Quantization scheme. | `auto` |",
        "| `--images, --frames N` | Number of images used, evenly chosen. | 200; of a data set 1000 |",
        "| `--key FILE` | Private key. | required |",
    ):
        assert row in rows
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows if row.startswith("|"))


def test_every_command_has_a_purpose_and_every_page_a_command() -> None:
    rows = purposes().splitlines()[2:]
    assert len(rows) == len(list(commands()))
    assert (
        "| `edgemeta verify` | Compare a backend with the reference, bit for bit. | [backends](backends.md) |" in rows
    )
    assert {words for words, _ in commands()} >= set(PAGES)


def test_every_option_says_what_it_does() -> None:
    assert [
        f"{words} {each.opts}" for words, command in commands() for each in options_of(command) if not each.help
    ] == []
