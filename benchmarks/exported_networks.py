"""What becomes of networks that a library exports: imported, quantized, run; and their int8 form of ONNX Runtime.

    python benchmarks/exported_networks.py FOLDER --name NAME [--keep]

FOLDER holds ONNX files, such as those of `yolo export format=onnx` (random weights will do). Each is imported without
options, which compares it with ONNX Runtime, quantized with drawn scenes, and run on the cpu backend beside the
reference, bit for bit. Then ONNX Runtime's static quantization of the file is imported and run so, too. --keep writes
results/exported-NAME.{md,json}.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.onnx_int8 import write_int8
from benchmarks.result_file import write_json, write_markdown

CALIBRATION, COMPARED = 24, 2
"""Images for the choice of scales, and images on which the backends are compared."""
Row = dict[str, Any]


def main() -> None:
    """Read the command line, try each file, print and keep the table; exit 1 where integers differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--name", required=True, help="of the result files")
    parser.add_argument("--keep", action="store_true", help="write the result files")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        scenes = {count: Path(folder) / f"{count}.npz" for count in (CALIBRATION, COMPARED)}
        for count, path in scenes.items():
            _edgemeta("scenes", "--images", count, "--seed", 1, "--out", path)
        for path in sorted(arguments.folder.glob("*.onnx")):
            rows.append(row_of(path, scenes, Path(folder)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(summary(rows))
    if arguments.keep:
        command = f"python benchmarks/exported_networks.py FOLDER --name {arguments.name} --keep"
        write_json(f"exported-{arguments.name}", command, {"files": rows})
        write_markdown(f"exported-{arguments.name}", command, f"{summary(rows)}\n\n{table(rows)}")
    if wrong := [row["file"] for row in rows if row.get("mismatches") or row.get("int8_mismatches")]:
        raise SystemExit(f"other integers than the reference: {', '.join(wrong)}")


def row_of(path: Path, scenes: dict[int, Path], folder: Path) -> Row:
    """One file: task, difference from ONNX Runtime, seconds of quantization, differing outputs; or the `error`."""
    row: Row = {"file": path.name, "bytes": path.stat().st_size}
    floats, integers = folder / "float.safetensors", folder / "net.safetensors"
    try:
        row |= _imported(path, floats)
        begun = time.monotonic()
        _edgemeta("quantize", floats, "--calibrate", scenes[CALIBRATION], "--out", integers)
        row["quantize_seconds"] = round(time.monotonic() - begun, 1)
        row["mismatches"] = _mismatches(integers, scenes[COMPARED])
    except subprocess.CalledProcessError as error:
        row["error"] = _complaint(error, path)
    try:
        form = write_int8(path, folder / "int8.onnx")
        row["int8_form"] = _imported(form, integers)["task"]
        row["int8_mismatches"] = _mismatches(integers, scenes[COMPARED])
    except subprocess.CalledProcessError as error:
        row["int8_error"] = _complaint(error, folder / "int8.onnx")
    return row


def _imported(path: Path, out: Path) -> Row:
    found = _edgemeta("import", path, "--out", out)
    task = found["task"] + (f" ({found['decoding']})" if "decoding" in found else "")
    return {"task": task, "difference": found["difference"], "layers": sum(found["layers"].values())}


def _mismatches(model: Path, images: Path) -> int:
    return int(_edgemeta("verify", model, "--data", images, "--backend", "cpu")["mismatches"])


def _edgemeta(*words: object) -> Any:
    command = [str(Path(sys.executable).with_name("edgemeta")), *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
    return json.loads(done.stdout)


def _complaint(error: subprocess.CalledProcessError, path: Path) -> str:
    return str(error.stderr).strip().splitlines()[-1].removeprefix("edgemeta: ").replace(f"{path}: ", "")


def summary(rows: list[Row]) -> str:
    """One sentence: how many came in, ran and agree."""
    ran = [row for row in rows if "mismatches" in row]
    far = max((row["difference"] for row in rows if row.get("difference") is not None), default=0.0)
    forms = [row for row in rows if "int8_mismatches" in row]
    wrong = sum(row["mismatches"] for row in ran) + sum(row["int8_mismatches"] for row in forms)
    return (
        f"{sum('task' in row for row in rows)} of {len(rows)} files come in without options, at most {far:.1e} of an "
        f"output's range from ONNX Runtime; {len(ran)} are quantized and run, and of {len(forms)} the int8 form of "
        f"ONNX Runtime runs: {wrong} outputs differ from the reference."
    )


def table(rows: list[Row]) -> str:
    """A line for each file."""
    head = "| file | task | difference | quantize, s | mismatches | int8 form | mismatches |\n"
    return f"{head}|---|---|---|---|---|---|---|\n" + "\n".join(
        f"| {row['file']} | {row.get('task') or 'refused: ' + row.get('error', '')} | "
        f"{'' if row.get('difference') is None else format(row['difference'], '.1e')} | "
        f"{row.get('quantize_seconds', '')} | {row.get('mismatches', '' if 'task' not in row else row.get('error'))} | "
        f"{row.get('int8_form') or 'refused: ' + row.get('int8_error', '')} | {row.get('int8_mismatches', '')} |"
        for row in rows
    )


if __name__ == "__main__":
    main()
