"""The tables of the model file have every record, its keys and what its docstring says."""

from edgemeta.model.document import KINDS
from tools.model_table import operators, records, tasks


def rows(table: str) -> dict[str, str]:
    return {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}


def test_every_kind_has_one_row() -> None:
    found = [name for table in (operators(), records(), tasks()) for name in rows(table) if name.startswith("`")]
    assert sorted(found) == sorted(f"`{kind}`" for kind in KINDS)


def test_a_row_has_keys_defaults_and_formula() -> None:
    conv = rows(operators())["`conv`"]
    assert "| `weights`, `bias`, `stride`, `padding`, `groups`, `requantize`, `dilation` ([1, 1]) |" in conv
    assert "acc[o] = bias[o] + sum over taps and channels of w \\* (x - zx)" in conv
    assert '`box_order` ("xywh")' in rows(tasks())["`detection`"]
    assert "<br>- yolov3: centre" in rows(tasks())["`detection`"]
    assert rows(records())["self test"].startswith("| self test | `batch`, `expected` | ")
