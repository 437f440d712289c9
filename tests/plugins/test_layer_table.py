"""The table of layers in docs/backends.md is the one that the backends give, with every kind of layer."""

import subprocess
import sys
from pathlib import Path
from typing import get_args

from edgemeta.model.layers import Layer
from edgemeta.plugins.layer_table import replaced, rows, table


def test_the_page_has_the_table_of_the_backends(repository: Path) -> None:
    """Where it has not: python -m edgemeta.plugins.layer_table docs/backends.md."""
    page = (repository / "docs" / "backends.md").read_text("utf-8")
    assert page == replaced(page)


def test_the_command_writes_the_table_and_leaves_the_rest_of_the_page(tmp_path: Path, repository: Path) -> None:
    page = (repository / "docs" / "backends.md").read_text("utf-8")
    (tmp_path / "page.md").write_text(page.replace("| max pool | yes | yes | yes |", "| max pool | no | no | yes |"))
    command = [sys.executable, "-m", "edgemeta.plugins.layer_table", str(tmp_path / "page.md")]
    subprocess.run(command, check=True)
    assert (tmp_path / "page.md").read_text("utf-8") == page


def test_every_kind_of_layer_has_a_row() -> None:
    assert {type(row.layer) for row in rows()} == set(get_args(Layer))
    texts = [row.text for row in rows()]
    assert len(set(texts)) == len(texts)
    assert table().count("\n| ") == len(texts) + 1
