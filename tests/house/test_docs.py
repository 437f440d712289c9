"""What a user can type is described: every verb in the README's table, every link in the documents leads somewhere."""

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from edgemeta.cli.main import edgemeta


def verbs() -> list[str]:
    return edgemeta.list_commands(click.Context(edgemeta))


@pytest.mark.parametrize("verb", verbs())
def test_every_command_has_a_row_in_the_command_table_and_an_example_in_its_help(repository: Path, verb: str) -> None:
    assert f"| `edgemeta {verb}" in (repository / "docs" / "commands.md").read_text("utf-8")
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
    documents = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]
    assert documents
    broken = [
        f"{document.relative_to(repository)}: {target}"
        for document in documents
        for target in re.findall(r"\]\(([^)#\s]+)", document.read_text("utf-8"))
        if "://" not in target and not (document.parent / target).exists()
    ]
    assert not broken


def test_every_make_target_that_a_document_names_is_in_the_help(repository: Path) -> None:
    """Documents, programs and the gate; in documents a target is named in backticks, or on a line with a comment."""
    targets = set(re.findall(r"^([a-z-]+): .*## ", (repository / "Makefile").read_text("utf-8"), re.MULTILINE))
    documents = [*repository.glob("*.md"), *(repository / "docs").rglob("*.md"), repository / ".ci" / "run"]
    named = {
        target
        for document in documents
        for target in re.findall(
            r"(?:`make|^make(?=.*#)|^time make) ([a-z-]+)", document.read_text("utf-8"), re.MULTILINE
        )
    }
    assert {"test", "check", "long", "coverage"} <= named
    assert named <= targets
