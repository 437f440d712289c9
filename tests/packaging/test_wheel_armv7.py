"""The wheel for 32-bit ARM in an emulated Python: its logits are the reference's, bit for bit.

Its command needs OpenCV, of which nobody offers a wheel for armv7 that could be tried here.
"""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from edgemeta import __version__
from rig.arm.doctor import REQUIREMENTS
from rig.arm.machines import ARMV7, MissingToolError
from rig.arm.python import EmulatedPython

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

DIGESTS = Path(__file__).with_name("conformance_digests.py")


def test_every_conformance_case_gives_the_references_bits(repository: Path, tmp_path: Path) -> None:
    name = f"edgemeta-{__version__}-py3-none-manylinux*_armv7l.whl"
    wheels = list((repository / "dist").glob(name))
    if not wheels:
        pytest.skip(f"dist/{name} is not built: make wheels")
    try:
        python = EmulatedPython("cortex-a7", REQUIREMENTS, "doctor", ARMV7)
    except MissingToolError as error:
        pytest.skip(str(error))
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(tmp_path)
    folders = [str(repository), str(tmp_path), *python.path.split(os.pathsep)]
    settings = {**os.environ, "PYTHONPATH": f"{tmp_path}:{python.path}"}
    command = python.command(str(DIGESTS), "cpu", *folders)
    emulated = subprocess.run(command, env=settings, check=True, stdout=subprocess.PIPE, text=True).stdout
    command = [sys.executable, str(DIGESTS), "reference"]
    reference = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert len(reference.splitlines()) > 100
    assert emulated.splitlines() == reference.splitlines()
