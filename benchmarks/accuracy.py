"""Top-1 accuracy of the shipped networks, float and integer, on one data set.

    python benchmarks/accuracy.py --data PATH

Measures each through `edgemeta eval`, prints a table, and writes results/accuracy.json and results/accuracy.md.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.result_file import write_json, write_markdown

NETWORKS = ("resnet8-cifar10-float", "resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5")


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="labelled images, as for `edgemeta eval`")
    data = parser.parse_args().data
    measured = {name: evaluate(name, data) for name in NETWORKS}
    reference = measured[NETWORKS[0]]["top1"]
    rows = ["| network | top-1 % | less than float | sha256 |", "|---|---|---|---|"]
    for name, result in measured.items():
        rows.append(
            f"| `{name}` | {result['top1']:.2f} | {reference - result['top1']:.2f} | `{result['sha256'][:12]}` |"
        )
    table = "\n".join(rows)
    print(table)
    command = f"python benchmarks/accuracy.py --data {Path(data).name}"
    write_json("accuracy", command, {"data": Path(data).name, "networks": measured})
    write_markdown(
        "accuracy", command, f"Top-1 on `{Path(data).name}`, {measured[NETWORKS[0]]['images']:,} images.\n\n{table}"
    )


def evaluate(name: str, data: str) -> dict[str, float]:
    """What `edgemeta eval NAME --data DATA --json` prints."""
    command = [str(Path(sys.executable).with_name("edgemeta")), "eval", name, "--data", data, "--json"]
    print(" ".join(["edgemeta", *command[1:]]), file=sys.stderr)
    result: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return result


if __name__ == "__main__":
    main()
