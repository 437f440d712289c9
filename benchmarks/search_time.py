"""How long a search of ResNet-8's binary bases and feature bits takes, by one worker and by two.

    python benchmarks/search_time.py --data PATH [--trials 1000] [--workers 1 2]

Runs `edgemeta search` as so many processes on one journal, each in a study of its own, and takes the time from the
start of the first to the end of the last: reading the images, ranges and sensitivities included. `trials_seconds` is
without the time that a worker needs for a study that is finished. Prints a table and writes results/search-time.json
and .md.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown

CONFIG = Path(__file__).parent.parent / "configs" / "search" / "resnet8-binary.yaml"


def main() -> None:
    """Search, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="labelled images")
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    chosen = parser.parse_args()
    runs = [timed(chosen.data, chosen.trials, workers) for workers in chosen.workers]
    rows = ["| workers | seconds | without the start | times as fast |", "|---:|---:|---:|---:|"]
    for run in runs:
        run["times"] = round(runs[0]["trials_seconds"] / run["trials_seconds"], 2)
        rows.append(f"| {run['workers']} | {run['seconds']:.0f} | {run['trials_seconds']:.0f} | {run['times']:.2f} |")
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/search_time.py --trials {chosen.trials}"
    write_json("search-time", command, {"trials": chosen.trials, "runs": runs})
    write_markdown("search-time", command, f"{chosen.trials:,} trials of resnet8-binary.yaml.\n\n{table}")


def timed(data: str, trials: int, workers: int) -> dict[str, Any]:
    """Seconds that so many workers take."""
    with tempfile.TemporaryDirectory() as folder:
        whole = run(data, trials, workers, folder)
        start = run(data, trials, 1, folder)
    return {"workers": workers, "seconds": round(whole, 1), "trials_seconds": round(whole - start, 1)}


def run(data: str, trials: int, workers: int, folder: str) -> float:
    """Seconds until all of so many processes have ended."""
    program = str(Path(sys.executable).with_name("edgemeta"))
    options = ["--config", str(CONFIG), "--data", data, "--folder", folder, "--trials", str(trials), "--json"]
    begin = time.monotonic()
    processes = [subprocess.Popen([program, "search", *options], stdout=subprocess.DEVNULL) for _ in range(workers)]
    if any(process.wait() for process in processes):
        sys.exit("a worker failed")
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
