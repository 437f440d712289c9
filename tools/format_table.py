"""The table of number formats in docs/simulator.md: fields of every kind, with limits and defaults."""

import json
from typing import get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from edgemeta.toolchain.number_formats.formats import Accumulator, Float32, Format
from tools.model_table import meaning


def table() -> str:
    """Markdown; without float32, which has no fields."""
    union, _ = get_args(Format)
    kinds = [*(kind for kind in get_args(union) if kind is not Float32), Accumulator]
    rows = (f"| `{kind.model_fields['kind'].default}` | {_fields(kind)} | {meaning(kind)} |" for kind in kinds)
    return "\n".join(("| kind | fields | meaning |", "|---|---|---|", *rows))


def _fields(kind: type[BaseModel]) -> str:
    return ", ".join(f"`{name}`{_limits(field)}" for name, field in kind.model_fields.items() if name != "kind")


def _limits(field: FieldInfo) -> str:
    """Least and greatest value, and the default in brackets."""
    bounds = {
        name: getattr(each, name) for each in field.metadata for name in ("ge", "gt", "le") if hasattr(each, name)
    }
    least = str(bounds["ge"]) if "ge" in bounds else f"above {bounds['gt']}" if "gt" in bounds else ""
    values = f" {least} .. {bounds['le']}" if bounds else ""
    choices = [each for each in get_args(field.annotation) if isinstance(each, str)]
    if choices:
        values = f" {', '.join(choices)}"
    return values if field.is_required() else f"{values} ({json.dumps(field.default)})"
