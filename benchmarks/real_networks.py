"""What becomes of files that people have: each is imported without options, then with its settings.

    python benchmarks/real_networks.py FOLDER [--keep]    --keep writes results/real-networks.{md,json}

FOLDER holds ONNX and TFLite files of others (docs/test-data.md). Settings are those of real_networks.yaml, by file. A
file is imported by `edgemeta import` in a process of its own, whose time and greatest memory are kept; it compares what
it made with ONNX Runtime or LiteRT itself. A file that REFUSED names is refused rightly.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks.result_file import write_json, write_markdown

SETTINGS = Path(__file__).with_suffix(".yaml")
KINDS = (".onnx", ".tflite")
LIMIT = 3e-3
"""Least difference from the runtime that is not float arithmetic, as a share of the output's range."""

Row = dict[str, Any]


def main() -> None:
    """Read the command line, import each file, print and keep the table; exit 1 where a file comes in wrongly."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keep", action="store_true", help="write the result files")
    arguments = parser.parse_args()
    files = sorted(path for path in arguments.folder.iterdir() if path.suffix in KINDS)
    known = yaml.safe_load(SETTINGS.read_text("utf-8"))
    rows = [row_of(path, known.get(path.name, {})) for path in shown(files)]
    print(summary(rows))
    if arguments.keep:
        command = "python benchmarks/real_networks.py FOLDER --keep"
        write_json("real-networks", command, {"files": rows})
        write_markdown("real-networks", command, f"{summary(rows)}\n\n{table(rows)}")
    if far := [
        row["file"] for row in rows for way in ("plain", "settings") if (row[way].get("difference") or 0) > LIMIT
    ]:
        raise SystemExit(f"further than {LIMIT:g} from the runtime: {', '.join(far)}")


def shown(files: Iterable[Path]) -> Iterable[Path]:
    """The files, each named on standard error before its turn."""
    for path in files:
        print(path.name, file=sys.stderr, flush=True)
        yield path


def row_of(path: Path, known: Mapping[str, Any]) -> Row:
    """The imports of a file, without and with settings. known: `settings`; `refused`, why a refusal is correct."""
    row: Row = {"file": path.name, "bytes": path.stat().st_size, "plain": imported(path, {})}
    settings = known.get("settings")
    row["settings"] = imported(path, settings) if settings else row["plain"]
    return row | {"options": settings or {}, "refused_rightly": known.get("refused")}


def imported(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of `edgemeta import`: task, difference from the runtime, seconds, bytes of memory; or its `error`."""
    with tempfile.TemporaryDirectory() as folder:
        options = Path(folder) / "settings.yaml"
        options.write_text(yaml.safe_dump(dict(settings)), "utf-8")
        command = [str(Path(sys.executable).with_name("edgemeta")), "import", str(path), "--json"]
        command += ["--out", f"{folder}/net.safetensors", "--settings", str(options)]
        begun = time.monotonic()
        said, complained = Path(folder) / "said", Path(folder) / "complained"
        with said.open("wb") as output, complained.open("wb") as errors:
            process = subprocess.Popen(command, stdout=output, stderr=errors)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = round(time.monotonic() - begun, 1)
        outcome, complaint = said.read_text("utf-8"), complained.read_text("utf-8")
    cost = {"seconds": seconds, "memory_bytes": usage.ru_maxrss * 1024}
    if process.returncode != 0:
        return {"error": complaint.strip().splitlines()[-1].removeprefix("Error: ").replace(f"{path}: ", ""), **cost}
    found = json.loads(outcome)
    task = found["task"] + (f" ({found['decoding']})" if "decoding" in found else "")
    families = [re.fullmatch(r"recognized (.+): decoding .+", note) for note in found["notes"]]
    family = next((each[1] for each in families if each), None)
    return {"task": task, "family": family, "int8": found["quantized"], "difference": found.get("difference"), **cost}


def summary(rows: list[Row]) -> str:
    """One sentence: how many came in, with and without settings."""
    plain, settings = (sum("error" not in row[way] for row in rows) for way in ("plain", "settings"))
    rightly = sum("error" in row["settings"] and bool(row["refused_rightly"]) for row in rows)
    compared = [row["settings"]["difference"] for row in rows if row["settings"].get("difference") is not None]
    furthest = f"; {len(compared)} compared with their runtime, furthest {max(compared):.1e}" if compared else ""
    return (
        f"{plain} of {len(rows)} files come in without options, {settings} with their settings, {rightly} are refused "
        f"rightly{furthest}."
    )


def table(rows: list[Row]) -> str:
    """A line for each file."""
    head = "| file | without options | with settings | settings | difference | seconds |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(
        f"| {row['file']} | {_cell(row['plain'])} | {_cell(row['settings']) if row['options'] else 'the same'} | "
        f"{', '.join(map(str, row['options']))} | {_number(row['settings'].get('difference'))} | "
        f"{row['plain']['seconds']} |"
        for row in rows
    )


def _cell(outcome: Mapping[str, Any]) -> str:
    if "error" in outcome:
        return "refused: " + outcome["error"].replace("|", "\\|")[:200]
    return f"{outcome['task']}{', int8' if outcome['int8'] else ''}"


def _number(difference: float | None) -> str:
    return "" if difference is None else f"{difference:.1e}"


if __name__ == "__main__":
    main()
