"""`edgemeta doctor` on emulated ARM processors, of 64 and of 32 bits: its report is valid, every kernel is right."""

import json

import jsonschema
import pytest

from rig.arm.doctor import DOCTORS, doctor
from rig.arm.machines import Machine, MissingToolError
from tools.json_schema import files


@pytest.mark.timeout(1800)
@pytest.mark.gate("a minute of an emulated Python; the first time it and its packages are downloaded")
@pytest.mark.parametrize("machine", DOCTORS, ids=lambda machine: machine.architecture.name)
def test_the_report_of_an_arm_processor_is_valid(machine: Machine) -> None:
    try:
        done = doctor(machine, "--seconds", "10")
    except MissingToolError as error:
        pytest.skip(str(error))
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    jsonschema.validate(report, json.loads(files()["doctor.schema.json"]))
    assert report["board"]["bits"] == (64 if machine.architecture.name == "aarch64" else 32)
    assert report["kernels"][0]["isa"] == machine.isa
    assert report["kernels"][0]["networks"] > 0
    assert all(not test["differ"] and test["failure"] is None for test in report["kernels"])
    assert report["speed"][0]["median_us"] > 0
