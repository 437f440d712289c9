"""`edgemeta doctor` on emulated ARM processors, of 64 and of 32 bits: its report is valid, every kernel is right."""

import json
import os
import subprocess
from pathlib import Path

import jsonschema
import pytest

from rig.arm.machines import MACHINES, Machine, MissingToolError, build
from rig.arm.python import EmulatedPython
from tools.json_schema import files

PROGRAM = "from edgemeta.cli.main import main; main()"
REQUIREMENTS = ("click", "paho-mqtt", "prometheus-client", "pydantic", "safetensors", "typing-extensions")
"""NumPy and YAML have no wheels for armv7: Debian's are used there."""
WHEELS = {"aarch64": ("numpy", "pyyaml"), "armv7": ()}
EMULATED = {"aarch64": "cortex-a76", "armv7": "cortex-a7"}


@pytest.mark.timeout(1800)
@pytest.mark.gate("a minute of an emulated Python; the first time it and its packages are downloaded")
@pytest.mark.parametrize("machine", [each for each in MACHINES if each.processor in EMULATED.values()], ids=str)
def test_the_report_of_an_arm_processor_is_valid(machine: Machine, repository: Path) -> None:
    architecture = machine.architecture
    requirements = (*REQUIREMENTS, *WHEELS[architecture.name])
    try:
        build(architecture)
        python = EmulatedPython(machine.processor, requirements, "doctor", architecture)
    except MissingToolError as error:
        pytest.skip(str(error))
    settings = {
        **os.environ,
        "PYTHONPATH": f"{repository / 'src'}:{python.path}",
        "EDGEMETA_CPU_LIBRARY": str(architecture.folder / "kernels/cpu/libedgemeta_cpu.so"),
    }
    command = python.command("-c", PROGRAM, "doctor", "--seconds", "10", "--json", "-")
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(files()["doctor.schema.json"]))
    assert report["board"]["bits"] == (64 if architecture.name == "aarch64" else 32)
    assert report["kernels"][0]["isa"] == machine.isa
    assert report["kernels"][0]["networks"] > 0
    assert all(not test["differ"] and test["failure"] is None for test in report["kernels"])
    assert report["speed"][0]["median_us"] > 0
