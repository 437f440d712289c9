"""Writes all generated documents, or checks that they are in step with the code.

    python -m tools.documents [--check]

These are the tables of layers, keys, options and figures in pages of docs/, and docs/schema. With --check nothing is
written, and the exit status is 1 where a document differs.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import boards, detector_tables, figures, import_table, json_schema, key_table, layer_table, option_table

ROOT = Path(__file__).parent.parent
TABLES = {
    "docs/backends.md": layer_table.replaced,
    "docs/boards.md": boards.replaced,
    "docs/commands.md": option_table.replaced,
    "docs/configuration.md": key_table.replaced,
    "docs/import.md": import_table.replaced,
    "docs/people-vehicles-animals.md": detector_tables.replaced,
}


def documents(root: Path) -> Iterator[tuple[Path, str]]:
    """Each generated document of a checkout and its text as it should be. Raises SystemExit as `figures.page`."""
    for name, replaced in TABLES.items():
        yield root / name, replaced((root / name).read_text("utf-8"))
    for name, text in json_schema.files().items():
        yield root / "docs" / "schema" / name, text
    yield root / figures.PAGE, figures.page(root)


def differing(root: Path) -> list[Path]:
    """The documents that are not in step, as paths from the root; files of docs/schema that nothing writes, too."""
    found = dict(documents(root))
    unknown = [path for path in (root / "docs" / "schema").iterdir() if path not in found]
    old = [path for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text]
    return [path.relative_to(root) for path in (*old, *unknown)]


def main() -> None:
    """Write them, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        for path, text in documents(ROOT):
            path.write_text(text, "utf-8")
    elif found := differing(ROOT):
        sys.exit(f"{', '.join(map(str, found))}: not in step: python -m tools.documents")


if __name__ == "__main__":
    main()
