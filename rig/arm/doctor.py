"""`edgemeta doctor` on an emulated ARM processor."""

import os
import subprocess
from dataclasses import dataclass
from resource import RUSAGE_CHILDREN, getrusage

from rig.arm.machines import MACHINES, Machine, build
from rig.arm.python import EmulatedPython

PROGRAM = "from edgemeta.cli.main import main; main()"
REQUIREMENTS = ("click", "paho-mqtt", "prometheus-client", "pydantic", "safetensors", "typing-extensions")
"""NumPy and YAML have no wheels for armv7: Debian's are used there."""
WHEELS = {"aarch64": ("numpy", "pyyaml"), "armv7": ()}
DOCTORS = tuple(each for each in MACHINES if each.processor in ("cortex-a76", "cortex-a7"))
"""One of 64 bits, one of 32."""


@dataclass(frozen=True)
class Doctor:
    """What it wrote, and the seconds of processor time that it took with all its children."""

    stdout: str
    stderr: str
    cpu_seconds: float


def doctor(machine: Machine, *options: str) -> Doctor:
    """Run it to its report on stdout. Raises MissingToolError, and RuntimeError for a failed download."""
    architecture = machine.architecture
    build(architecture)
    requirements = (*REQUIREMENTS, *WHEELS[architecture.name])
    python = EmulatedPython(machine.processor, requirements, "doctor", architecture)
    sources = architecture.folder.parent.parent.parent / "src"
    settings = {
        **os.environ,
        "PYTHONPATH": f"{sources}:{python.path}",
        "EDGEMETA_CPU_LIBRARY": str(architecture.folder / "kernels/cpu/libedgemeta_cpu.so"),
    }
    before = getrusage(RUSAGE_CHILDREN)
    command = python.command("-c", PROGRAM, "doctor", *options, "--json", "-")
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    used = getrusage(RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return Doctor(done.stdout, done.stderr, round(seconds, 1))
