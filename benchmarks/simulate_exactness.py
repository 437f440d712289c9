"""Whether the precision simulator computes a device's integers: every tensor of every layer, on a whole data set.

    python benchmarks/simulate_exactness.py --data PATH [MODEL ...]

Runs `edgemeta simulate eval` for each shipped integer network, or for the models that are named, prints a table, and
writes results/simulate-exactness.json and .md. Exits with 1 at any mismatch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.zoo import names


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="shipped names or files; default: all shipped ones")
    parser.add_argument("--data", required=True, help="labelled images, as for `edgemeta simulate eval`")
    chosen = parser.parse_args()
    runs = [simulated(model, chosen.data) for model in chosen.models or names()]
    rows = ["| network | images | with a mismatch | top-1 % | sha256 |", "|---|---:|---:|---:|---|"]
    for run in runs:
        cells = run["images"], run["mismatches"], f"{run['top1']:.2f}", f"`{run['sha256'][:12]}`"
        rows.append(f"| `{run['model']}` | " + " | ".join(map(str, cells)) + " |")
    table = "\n".join(rows)
    print(table)
    named = [Path(model).name for model in chosen.models]
    command = " ".join(["python benchmarks/simulate_exactness.py --data", Path(chosen.data).name, *named])
    write_json("simulate-exactness", command, {"runs": runs})
    write_markdown(
        "simulate-exactness", command, f"Every tensor, compared with the reference's, bit for bit.\n\n{table}"
    )
    sys.exit(any(run["mismatches"] for run in runs))


def simulated(model: str, data: str) -> dict[str, Any]:
    """What `edgemeta simulate eval MODEL --data DATA --json` prints."""
    arguments = ["simulate", "eval", model, "--data", data, "--json"]
    print("edgemeta", *arguments, file=sys.stderr)
    done = subprocess.run([str(Path(sys.executable).with_name("edgemeta")), *arguments], stdout=subprocess.PIPE)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"edgemeta {' '.join(arguments)} ended with exit code {done.returncode}")
    return {"model": Path(model).stem if model.endswith(".safetensors") else model, **json.loads(done.stdout)}


if __name__ == "__main__":
    main()
