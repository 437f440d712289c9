"""Whether the cpu backend gives the reference's logits, bit for bit, on a whole data set with every instruction set.

    python benchmarks/exactness.py --data PATH [MODEL ...]

Runs `edgemeta verify` for each shipped integer network, or for the models that are named, and each instruction set of
this machine, prints a table, and writes results/exactness.json and results/exactness.md. Exits with 1 at any mismatch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cpu.library import best_isa
from edgemeta.model.zoo import names

INSTRUCTION_SETS = ("avx512vnni", "avxvnni", "avx2", "portable")
"""The best first: a machine that has one has those after it, too."""


def main() -> None:
    """Verify, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="labelled images, as for `edgemeta verify`")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="all shipped integer networks by default")
    options = parser.parse_args()
    data, models = options.data, options.models or names()
    here = INSTRUCTION_SETS[INSTRUCTION_SETS.index(best_isa()) :]
    if here != INSTRUCTION_SETS:
        print(f"this machine has {', '.join(here)} only", file=sys.stderr)
    runs = [{"model": name, "isa": isa, **verify(name, isa, data)} for name in models for isa in here]
    rows = ["| network | instruction set | images | mismatches | sha256 |", "|---|---|---:|---:|---|"]
    for run in runs:
        digest = run["sha256"][:12]
        rows.append(f"| `{run['model']}` | {run['isa']} | {run['images']} | {run['mismatches']} | `{digest}` |")
    table = "\n".join(rows)
    print(table)
    command = " ".join(["python benchmarks/exactness.py --data", Path(data).name, *options.models])
    write_json("exactness", command, {"runs": runs})
    write_markdown("exactness", command, f"Logits compared with the reference's, bit for bit.\n\n{table}")
    sys.exit(any(run["mismatches"] for run in runs))


def verify(model: str, isa: str, data: str) -> dict[str, Any]:
    """What `edgemeta verify MODEL --data DATA --backend cpu --isa ISA --json` prints."""
    arguments = ["verify", model, "--data", data, "--backend", "cpu", "--isa", isa, "--json"]
    print("edgemeta", *arguments, file=sys.stderr)
    done = subprocess.run([str(Path(sys.executable).with_name("edgemeta")), *arguments], stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
