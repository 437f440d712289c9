"""Damaged input by the hundred thousand: configs, commands, model files, MQTT packets and payloads, outbox files.

Runs the tests marked `fuzz`. Each feeds randomly damaged (seeded) input to the code that receives such input on a
device, and fails if the code crashes, reports more than one sentence, or changes anything. This adds up the counts.

    python reliability/fuzz.py --keep      writes benchmarks/results/fuzz.json
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from benchmarks.result_file import write_json

REPOSITORY = Path(__file__).parent.parent


def run(tests: list[str]) -> dict[str, Any]:
    """Run the tests; return how many inputs of each kind were fed, and which tests failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-m",
            "fuzz",
            "-o",
            "junit_family=xunit1",
            f"--junitxml={report}",
            *tests,
        ]
        subprocess.run(command, cwd=REPOSITORY, stdout=sys.stderr, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    inputs: Counter[str] = Counter()
    for case in cases:
        for one in case.iter("property"):
            inputs[one.attrib["name"].removeprefix("fed: ")] += int(one.attrib["value"])
    return {
        "inputs": dict(inputs),
        "inputs_in_all": sum(inputs.values()),
        "tests": len(cases),
        "failed": [case.attrib["name"] for case in cases if {child.tag for child in case} & {"failure", "error"}],
        "minutes": round(sum(float(case.attrib["time"]) for case in cases) / 60, 1),
    }


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", default=["tests"], help="files of tests; all of them by default")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/fuzz.json")
    arguments = parser.parse_args()
    outcome = run(arguments.tests)
    if arguments.keep:
        chosen = [] if arguments.tests == ["tests"] else arguments.tests
        write_json("fuzz", " ".join(["python reliability/fuzz.py", *chosen, "--keep"]), outcome)
    print(json.dumps(outcome, indent=2))
    if outcome["failed"] or not outcome["inputs_in_all"]:
        sys.exit("some input was not met as it should be")


if __name__ == "__main__":
    main()
