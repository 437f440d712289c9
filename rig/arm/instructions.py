"""Counts the instructions that an emulated processor executes: the same in every run, so a fair figure of cost.

qemu-user counts guest instructions by a plugin. They are no times: a load that misses the cache counts as one, too.
"""

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from ctypes import c_void_p
from pathlib import Path
from unittest import mock

import numpy as np

from edgemeta.kernels.cpu.library import FORMS
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.graph import Model
from edgemeta.plugins.measure import random_image
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import AARCH64, Machine, build, require

_LIBRARY = "edgemeta.kernels.cpu.program.library"


def counting(log: Path) -> list[str]:
    """Options of qemu that write the number of instructions to a file at the program's end. Builds the plugin."""
    require({"gcc": "gcc"}, "counter of instructions")
    source = Path(__file__).with_name("count_instructions.c")
    plugin = AARCH64.folder.parent / "count_instructions.so"
    if not plugin.exists() or plugin.stat().st_mtime < source.stat().st_mtime:
        part = plugin.with_suffix(".part")
        plugin.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", str(source), "-o", str(part)], check=True)
        part.replace(plugin)
    return ["-plugin", str(plugin), "-d", "plugin", "-D", str(log)]


def difference(run: Callable[[int, Path], None], images: Sequence[int]) -> float:
    """Instructions per image: from `images[0]` to `images[1]` of them, so that the start of the program is left out.

    run: executes a program on some images with `counting` of a file.
    """
    counts = []
    with tempfile.TemporaryDirectory() as folder:
        for number in images:
            log = Path(folder) / str(number)
            run(number, log)
            counts.append(int(log.read_text()))
    return (counts[1] - counts[0]) / (images[1] - images[0])


def instructions_per_image(machine: Machine, model: Model, form: str = FORMS[0]) -> float:
    """Of the library's best kernels on a machine, one thread; form: as of Program. Raises MissingToolError."""
    build(machine.architecture)
    image = random_image(model)
    outputs = [np.empty((1, *kind.shape), kind.dtype) for kind in model.output_types]
    addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))

    def run(images: int, log: Path) -> None:
        library = EmulatedLibrary(machine.command(*counting(log)))
        with mock.patch(_LIBRARY, return_value=library), closing(Program(model, machine.isa, 1, form)) as program:
            for _ in range(images):
                program.run(1, image.ctypes.data, addresses)
        library.stop()

    return difference(run, (1, 3))
