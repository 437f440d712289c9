"""Tables of what is imported: networks, what to type and what comes of it, from result files; operators; families."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgemeta.toolchain.importer.heads.families import FAMILIES
from edgemeta.toolchain.importer.onnx_network import OPERATORS
from edgemeta.toolchain.importer.tflite_network import TFLITE_OPERATORS

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
HEAD = (
    "| network | files | what to type | float, from its runtime | integers | import, s |",
    "|---|---|---|---|---|---|",
)
COMMAND = "edgemeta import FILE --out MODEL"


def table() -> str:
    """The table as the result files have it."""
    return "\n".join((*HEAD, *_others(), *_exported(), *_known()))


def operators() -> str:
    """The operators of either form that have a converter, as docs/import.md has them."""
    forms = (("ONNX", OPERATORS), ("TFLite", TFLITE_OPERATORS))
    rows = (f"| {name} | {', '.join(f'`{each}`' for each in sorted(names))} |" for name, names in forms)
    return "\n".join(("| form | operators |", "|---|---|", *rows))


def families() -> str:
    """The families of detections that are recognized, as docs/detection.md has them."""
    rows = (f"| {each.name} | {each.ends} | `{each.formula.decoding}` | `{each.pixels.text()}` |" for each in FAMILIES)
    head = (
        "| family | convolutions of each grid | decoding | image, unless options say otherwise |",
        "|---|---|---|---|",
    )
    return "\n".join((*head, *rows))


def _result(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def _others() -> Iterator[str]:
    """A line for each family or task of the real files, with the options that some of them need."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in _result("real-networks")["files"]:
        found = row["settings"]
        if "error" not in found:
            name = found["family"] or found["task"]
            groups.setdefault((name, _typed({} if "error" not in row["plain"] else row["options"])), []).append(found)
    for (name, typed), rows in sorted(groups.items(), key=lambda each: (each[0][0].lower(), each[0][1])):
        yield _line(name, len(rows), typed, rows, _integers(rows))


def _typed(options: Mapping[str, Any]) -> str:
    words = (f" --{key.replace('_', '-')} {value}" for key, value in options.items() if value is not None)
    return f"`{COMMAND}{''.join(words)}`"


def _integers(rows: list[Mapping[str, Any]]) -> str:
    """How many of the files have integers of their own."""
    own = sum(row["int8"] for row in rows)
    return "" if not own else "those of the file" if own == len(rows) else f"those of the file ({own})"


def _known() -> Iterator[str]:
    """A line for each known network, with what was measured of it in float and in integers."""
    figures: dict[str, dict[str, str]] = {}
    for row in _result("known-networks")["networks"]:
        figures.setdefault(row["name"], {})[row["model"]] = row["figure"]
    for name, each in figures.items():
        yield f"| {name} | 1 | `edgemeta model get {name}` | {each.get('float', '')} | {each.get('integer', '')} | |"


def _exported() -> Iterator[str]:
    """A line for each network that Ultralytics exports."""
    for row in _result("exported-ultralytics")["files"]:
        if "mismatches" in row:
            integers = (
                f"quantized in {row['quantize_seconds']:.0f} s; {row['mismatches']} outputs differ from the reference"
            )
            yield _line(f"Ultralytics {row['file'].removesuffix('.onnx')}", 1, _typed({}), [row], integers)


def _line(name: str, files: int, typed: str, rows: list[Mapping[str, Any]], integers: str) -> str:
    far = [row["difference"] for row in rows if row.get("difference") is not None]
    seconds = sorted(row["seconds"] for row in rows if "seconds" in row)
    took = "" if not seconds else f"{seconds[0]:.0f} to {seconds[-1]:.0f}" if len(seconds) > 1 else f"{seconds[0]:.0f}"
    return f"| {name} | {files} | {typed} | {f'{max(far):.0e}' if far else ''} | {integers} | {took} |"
