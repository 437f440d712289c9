"""The table of layers in docs/backends.md is the one that the backends give, with every kind of layer."""

from pathlib import Path
from typing import get_args

from edgemeta.model.layers import Layer, Moving
from tools.layer_table import replaced, rows, table


def test_the_table_is_written_and_the_rest_of_the_page_left(repository: Path) -> None:
    page = (repository / "docs" / "backends.md").read_text("utf-8")
    assert replaced(page.replace("| max pool | yes | yes | yes |", "| max pool | no | no | yes |")) == page


def test_every_kind_of_layer_has_a_row() -> None:
    """Those that only move elements share one, which names them."""
    moving = {kind for kind in get_args(Layer) if issubclass(kind, Moving)}
    assert {type(row.layer) for row in rows()} - moving == set(get_args(Layer)) - moving
    texts = [row.text for row in rows()]
    assert all(kind.kind.replace("_", " ") in " ".join(texts) for kind in moving)
    assert len(set(texts)) == len(texts)
    assert table().count("\n| ") == len(texts) + 1
