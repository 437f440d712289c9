"""The table of docs/figures.md: which result file a page's figures come from, and which program wrote it, when, where.

A figure is found by the page's link to its result file, in the section that has the link.
A result file that no page links is an error.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = Path("docs/figures.md")
RESULTS = Path("benchmarks/results")
_LINK = re.compile(r"benchmarks/results/([\w.-]+)\.(?:json|md)\b")


@dataclass
class Result:
    """A result, NAME.json and often NAME.md beside it. places: links to the sections that use it."""

    name: str
    command: str
    date: str
    processor: str
    places: list[str] = field(default_factory=list)


def results(root: Path) -> dict[str, Result]:
    """Every result by its name. Raises SystemExit where one does not name its command."""
    found = {}
    for path in sorted((root / RESULTS).glob("*.json")):
        values = json.loads(path.read_text("utf-8"))
        if "command" not in values:
            raise SystemExit(f"{path.relative_to(root)}: no command, expected the one that writes the file")
        processor = values.get("machine", {}).get("processor", "")
        found[path.stem] = Result(path.stem, values["command"], values.get("date", ""), processor)
    return found


def pages(root: Path) -> Iterator[Path]:
    """The documents that may state figures, in the order of the table."""
    yield root / "README.md"
    for folder in ("docs", "kernels"):
        yield from sorted(path for path in (root / folder).rglob("*.md") if path != root / PAGE)


def citations(page: Path) -> Iterator[tuple[str, str]]:
    """Section and name of each result that a page links, in order; a result once for each section."""
    section, seen = "", set()
    for line in page.read_text("utf-8").splitlines():
        if line.startswith("#"):
            section = line.lstrip("# ").strip()
        for name in _LINK.findall(line):
            if (section, name) not in seen:
                seen.add((section, name))
                yield section, name


def anchor(section: str) -> str:
    """The fragment that a section's heading has on the web."""
    return re.sub(r"[^\w\- ]", "", section.lower()).replace(" ", "-")


def place(page: str, section: str) -> str:
    """A link from PAGE to a section of a page, a path from the root; to all of a decision or a page of the notebook."""
    target = page.removeprefix("docs/") if page.startswith("docs/") else f"../{page}"
    if numbered := re.match(r"docs/(decision|notebook)s?/0*(\d+)-", page):
        return f"[{numbered[1]} {numbered[2]}]({target})"
    words = re.sub(r"[`*]|\[|\]\([^)]*\)", "", section)
    return f"[{page.removeprefix('docs/').removesuffix('.md')}: {words}]({target}#{anchor(words)})"


def table(root: Path) -> str:
    """Markdown. Raises SystemExit where a result is cited nowhere, or a page cites one that is not there."""
    found = results(root)
    for page in pages(root):
        name = page.relative_to(root).as_posix()
        for section, cited in citations(page):
            if cited not in found:
                raise SystemExit(f"{name}: links the result {cited!r}, which is not in {RESULTS}")
            found[cited].places.append(place(name, section))
    unused = [name for name, result in found.items() if not result.places]
    if unused:
        raise SystemExit(f"{', '.join(unused)}: no page links it; delete it with its program, or state its figure")
    rows = [
        f"| {', '.join(each.places)} | `{each.command}` | [{each.name}](../{RESULTS}/{each.name}.json) | {each.date} "
        f"| {each.processor} |"
        for each in found.values()
    ]
    return "\n".join(["| claim | program | result | date | processor |", "|---|---|---|---|---|", *rows])
