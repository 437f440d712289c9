"""The generated parts of the documents: tables that pages name by a marker, and the files that are committed.

    python -m tools.documents [--check]                 write what is committed, or check that it is in step
    python -m tools.documents PAGE... [--into FOLDER]   print pages with their tables, or write them there

A line `<!-- table: NAME -->` in a page stands for a table of TABLES; `make docs` puts it into the site. Committed are
docs/schema, and the measured figures of COMMITTED.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from reliability import table as promises
from tools import (
    boards,
    detector_tables,
    figures,
    format_table,
    import_table,
    json_schema,
    key_table,
    layer_table,
    message_table,
    metric_table,
    model_table,
    option_table,
)

ROOT = Path(__file__).parent.parent
TABLES = {
    "commands": option_table.purposes,
    "families": import_table.families,
    "figures": lambda: figures.table(ROOT),
    "formats": format_table.table,
    "imported": import_table.operators,
    "keys": key_table.table,
    "layers": layer_table.table,
    "messages": message_table.sections,
    "metrics": metric_table.table,
    "networks": import_table.table,
    "operators": model_table.operators,
    "options": option_table.sections,
    "promises": promises.table,
    "records": model_table.records,
    "report": boards.fields,
    "tasks": model_table.tasks,
    "topics": message_table.topics,
}
COMMITTED = {
    "docs/boards.md": boards.replaced,
    "docs/people-vehicles-animals.md": detector_tables.replaced,
}
_MARKER = re.compile(r"^<!-- table: ([\w-]+) -->$", re.MULTILINE)


def filled(page: str) -> str:
    """The page with a table for each marker. Raises SystemExit where there is no such table."""

    def table(marker: re.Match[str]) -> str:
        if marker[1] not in TABLES:
            raise SystemExit(f"table {marker[1]!r} is unknown, expected {', '.join(TABLES)} (tools/documents.py)")
        return TABLES[marker[1]]()

    return _MARKER.sub(table, page)


def documents(root: Path) -> Iterator[tuple[Path, str]]:
    """Each committed document of a checkout that is generated, and its text as it should be."""
    for name, replaced in COMMITTED.items():
        yield root / name, replaced((root / name).read_text("utf-8"))
    for name, text in json_schema.files().items():
        yield root / "docs" / "schema" / name, text


def differing(root: Path) -> list[Path]:
    """The documents that are not in step, as paths from the root; files of docs/schema that nothing writes, too."""
    found = dict(documents(root))
    unknown = [path for path in (root / "docs" / "schema").iterdir() if path not in found]
    old = [path for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text]
    return [path.relative_to(root) for path in (*old, *unknown)]


def main() -> None:
    """Write or check what is committed, or fill pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    parser.add_argument("--into", type=Path, metavar="FOLDER")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    for page in asked.pages:
        text = filled(page.read_text("utf-8"))
        if asked.into is None:
            print(text, end="")
        else:
            (asked.into / page.name).write_text(text, "utf-8")
    if asked.pages:
        return
    if not asked.check:
        for path, text in documents(ROOT):
            path.write_text(text, "utf-8")
    elif found := differing(ROOT):
        sys.exit(f"{', '.join(map(str, found))}: not in step: python -m tools.documents")


if __name__ == "__main__":
    main()
