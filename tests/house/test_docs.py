"""Documents: every command has a row and an example, every link leads somewhere, lines have at most 120 columns."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgemeta.cli.main import edgemeta
from tools.option_table import purposes

WIDTH = 120


def documents_of(repository: Path) -> list[Path]:
    folders = ("docs", "kernels", "proof", "systemd")
    documents = [*repository.glob("*.md"), *(each for name in folders for each in (repository / name).rglob("*.md"))]
    assert len(documents) > 40
    return documents


def verbs() -> list[str]:
    return edgemeta.list_commands(click.Context(edgemeta))


@pytest.mark.parametrize("verb", verbs())
def test_every_command_has_a_row_in_the_command_table_and_an_example_in_its_help(verb: str) -> None:
    assert f"| `edgemeta {verb}" in purposes()
    result = CliRunner().invoke(edgemeta, [verb, "--help"])
    assert result.exit_code == 0
    assert f"edgemeta {verb}" in result.output.split("\n", 1)[1], "the help text shows no example"


def groups() -> list[list[str]]:
    """The arguments of every group of verbs, the program itself first."""
    context = click.Context(edgemeta)
    return [[], *([verb] for verb in verbs() if isinstance(edgemeta.get_command(context, verb), click.Group))]


@pytest.mark.parametrize("group", groups(), ids=lambda group: " ".join(["edgemeta", *group]))
def test_every_command_is_described_fully_in_a_list_of_80_columns(group: list[str]) -> None:
    result = CliRunner().invoke(edgemeta, [*group, "--help"], terminal_width=80)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    described = lines[lines.index("Commands:") + 1 :]
    assert described
    assert [line for line in described if line.endswith("...") or len(line) > 80 or len(line.split()) < 3] == []


def test_links_between_documents_lead_somewhere(repository: Path) -> None:
    broken = [
        f"{document.relative_to(repository)}: {target}"
        for document in documents_of(repository)
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert not broken


def test_the_index_lists_every_page(repository: Path) -> None:
    docs = repository / "docs"
    listed = set(re.findall(r"\]\(([^)#]+)", (docs / "README.md").read_text("utf-8")))
    assert {page.name for page in docs.glob("*.md")} - listed == {"README.md"}


def test_every_page_is_at_most_two_clicks_from_the_index(repository: Path) -> None:
    """The site lists the files of the folders that are linked as such: decisions, notebook, schema (tools/site.py)."""
    docs = repository / "docs"
    listed = {docs / name for name in ("decisions", "notebook")}
    reached = {docs / "README.md"}
    for _ in range(2):
        links = {
            (page.parent / target).resolve()
            for page in reached
            for target in (re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")) if page.is_file() else ())
        }
        reached |= {link for link in links if docs in link.parents and link.suffix in ("", ".md")}
        reached |= {page for folder in listed & reached for page in folder.glob("*.md")}
    assert set(docs.rglob("*.md")) - reached == set()


def test_every_make_target_that_a_document_names_is_in_the_help(repository: Path) -> None:
    """Documents, programs and the gate; in documents a target is named in backticks, or on a line with a comment."""
    targets = set(re.findall(r"^([a-z-]+): .*## ", (repository / "Makefile").read_text("utf-8"), re.MULTILINE))
    documents = [*documents_of(repository), repository / ".ci" / "run"]
    named = {
        target
        for document in documents
        for target in re.findall(
            r"(?:`make|^make(?=.*#)|^time make) ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE
        )
    }
    assert {"test", "check", "long", "coverage"} <= named
    assert named <= targets


def test_lines_of_documents_have_at_most_120_columns(repository: Path) -> None:
    """Tables, code blocks and lines without a place to break them (a URL) may be longer."""
    long_lines = []
    for document in documents_of(repository):
        in_code = False
        for number, line in enumerate(document.read_text("utf-8").splitlines(), 1):
            in_code ^= line.lstrip().startswith("```")
            may_be_longer = in_code or line.lstrip().startswith(("|", "<!--")) or len(line.split()) < 3
            if len(line) > WIDTH and not may_be_longer:
                long_lines.append(f"{document.relative_to(repository)}:{number}: {len(line)} columns")
    assert not long_lines
