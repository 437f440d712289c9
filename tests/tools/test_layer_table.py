"""The table of layers is the one that the backends give, with every kind of layer."""

from typing import get_args

from edgemeta.model.layers import Layer, Moving
from tools.layer_table import rows, table


def test_a_row_has_the_answer_of_each_backend() -> None:
    """The columns are reference, cpu, neon, cuda and fpga."""
    assert "| max pool | yes | yes | yes | yes | no |" in table().splitlines()


def test_every_kind_of_layer_has_a_row() -> None:
    """Those that only move elements share one, which names them."""
    moving = {kind for kind in get_args(Layer) if issubclass(kind, Moving)}
    assert {type(row.layer) for row in rows()} - moving == set(get_args(Layer)) - moving
    texts = [row.text for row in rows()]
    assert all(kind.kind.replace("_", " ") in " ".join(texts) for kind in moving)
    assert len(set(texts)) == len(texts)
    assert table().count("\n| ") == len(texts)
