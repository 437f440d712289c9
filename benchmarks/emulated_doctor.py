"""How long `edgemeta doctor` takes on ARM processors of 64 and 32 bits, emulated: a check of its limit, no speed.

    python -m benchmarks.emulated_doctor

Writes results/emulated-doctor.{json,md}; exits with 1 where a kernel differs or it takes longer than 90 seconds.
"""

import argparse
import json
import os
import sys
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from rig.arm.doctor import DOCTORS, doctor

COMMAND = "python -m benchmarks.emulated_doctor"
LIMIT = 90.0


def main() -> None:
    """Run it on each processor, print and write."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    rows: list[dict[str, Any]] = []
    for machine in DOCTORS:
        load = os.getloadavg()[0]
        done = doctor(machine)
        report = json.loads(done.stdout)
        rows.append(
            {
                "processor": machine.processor,
                "architecture": machine.architecture.name,
                "seconds": report["seconds"],
                "cpu_seconds": done.cpu_seconds,
                "load": round(load, 1),
                "networks": sum(test["networks"] for test in report["kernels"]),
                "left": sum(test["left"] for test in report["kernels"]),
                "differ": sum(len(test["differ"]) for test in report["kernels"]),
            }
        )
    lines = [
        "| processor | seconds | of processor time | load before | networks run | not reached | differ |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {row['processor']} ({row['architecture']}) | {row['seconds']} | {row['cpu_seconds']} | {row['load']} "
            f"| {row['networks']} | {row['left']} | {row['differ']} |"
            for row in rows
        ),
    ]
    print("\n".join(lines))
    write_json("emulated-doctor", COMMAND, {"rows": rows})
    write_markdown("emulated-doctor", COMMAND, "\n".join(lines))
    sys.exit(any(row["differ"] or row["seconds"] > LIMIT for row in rows))


if __name__ == "__main__":
    main()
