"""Scheme `binary`: the integer form's accuracy beside that of the real-valued decomposition.

    python benchmarks/binary_decomposition.py --calibrate PATH --test PATH [--float NAME] [--widths 2 4 6 8]

Runs `edgemeta quantize --scheme binary --json` with the same number of bases and feature bits in every layer, prints a
table, and writes results/binary-decomposition.json and .md. Exits with 1 if the integer form is more than 0.2 points
below the real-valued one, which it is to match; of 1,000 images a point is chance, so it takes ten thousand.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown

MOST_POINTS = 0.2


def main() -> None:
    """Quantize, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--float", default="resnet8-cifar10-float", help="the float network, a shipped name or a file")
    parser.add_argument("--calibrate", required=True, help="calibration images")
    parser.add_argument("--test", required=True, help="labelled images that both forms are measured on")
    parser.add_argument("--widths", type=int, nargs="+", default=list(range(2, 9)), help="bases and feature bits")
    chosen = parser.parse_args()
    runs = [quantized(chosen.float, chosen.calibrate, chosen.test, width) for width in chosen.widths]
    rows = ["| bases and bits | integer % | real-valued % | difference | bytes |", "|---:|---:|---:|---:|---:|"]
    for width, run in zip(chosen.widths, runs, strict=True):
        run["difference"] = round(run["top1"] - run["real_top1"], 2)
        cells = width, f"{run['top1']:.2f}", f"{run['real_top1']:.2f}", f"{run['difference']:+.2f}", f"{run['bytes']:,}"
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    table = "\n".join(rows)
    print(table)
    widths = " ".join(map(str, chosen.widths))
    images = f"--calibrate {Path(chosen.calibrate).name} --test {Path(chosen.test).name}"
    command = f"python benchmarks/binary_decomposition.py --float {chosen.float} {images} --widths {widths}"
    floating = f"The float network has {runs[0]['float_top1']:.2f} % of {runs[0]['images']:,} images."
    write_json("binary-decomposition", command, {"widths": chosen.widths, "runs": runs})
    write_markdown("binary-decomposition", command, f"{floating}\n\n{table}")
    sys.exit(any(run["difference"] < -MOST_POINTS for run in runs))


def quantized(network: str, calibrate: str, test: str, width: int) -> dict[str, Any]:
    """What `edgemeta quantize --scheme binary` reports for so many bases and feature bits."""
    with tempfile.TemporaryDirectory() as folder:
        widths = ["--bases", str(width), "--feature-bits", str(width)]
        images = ["--calibrate", calibrate, "--images", "200", "--test", test]
        arguments = ["quantize", network, "--scheme", "binary", *widths, *images, "--out", f"{folder}/out.safetensors"]
        print("edgemeta", *arguments, file=sys.stderr)
        program = str(Path(sys.executable).with_name("edgemeta"))
        done = subprocess.run([program, *arguments, "--json"], stdout=subprocess.PIPE, check=True)
        found: dict[str, Any] = json.loads(done.stdout)
        return {key: value for key, value in found.items() if key not in ("path", "seconds", "peak_memory")}


if __name__ == "__main__":
    main()
