"""Planted bugs that only a GPU would execute: the emulation compiles other lines, or its barriers.

Every mutant leaves the code that the CPU emulation sees as it is.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgemeta.kernels.cuda.compile.compiler import SOURCES, Compiler, options
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source

_BARRIER = "__syncthreads();"
_ONLY_EMULATED = "\n#ifdef EDGEMETA_EMULATION\n__syncthreads();\n#else\n;\n#endif\n"
_DEVICE, _TENSOR = "include/device.cuh", "tensor/mma.cuh"


@dataclass(frozen=True)
class GpuMutant:
    """One replaced text of a file. number: which occurrence. witnesses: key of the networks that must notice it."""

    witnesses: str
    file: str
    before: str
    after: str
    number: int = 0

    def __str__(self) -> str:
        after = "only in the emulation" if self.after == _ONLY_EMULATED else self.after
        return f"{self.file}: {self.before} ({self.number + 1}) -> {after}"


def arithmetic() -> list[GpuMutant]:
    """Wrong halves, signs and roundings in inline PTX and intrinsics."""
    return [
        GpuMutant("halves", _DEVICE, "mad.wide.s16 %0, ah, bh, %3", "mad.wide.s16 %0, ah, bl, %3"),
        GpuMutant("halves", _DEVICE, "mad.wide.s16 %0, al, bl, %3", "mad.wide.s16 %0, ah, bl, %3"),
        GpuMutant("halves", _DEVICE, "mad.wide.s16 %0, ah, bh, %3", "mad.wide.u16 %0, ah, bh, %3"),
        GpuMutant("dp4a", _DEVICE, "dp4a.s32.s32", "dp4a.u32.s32"),
        GpuMutant("dp4a unsigned", _DEVICE, "dp4a.u32.s32", "dp4a.s32.s32"),
        GpuMutant("dp4a", _DEVICE, "dp4a.s32.s32", "dp4a.s32.u32"),
        GpuMutant("mma long", _TENSOR, '"32", "s8.s8"', '"32", "u8.s8"'),
        GpuMutant("mma short", _TENSOR, '"16", "s8.s8"', '"16", "u8.s8"'),
        GpuMutant("mma int4 long", _TENSOR, '"64", "s4.s4"', '"64", "u4.s4"'),
        GpuMutant("mma int4 short", _TENSOR, '"32", "s4.s4"', '"32", "u4.s4"'),
        GpuMutant("mma int4 unsigned", _TENSOR, '"64", "u4.s4"', '"64", "u4.u4"'),
        GpuMutant("popc", _DEVICE, "0xE8;", "0xE0;"),
        GpuMutant("popc", _DEVICE, "0x96;", "0x16;"),
        GpuMutant("rounding", _DEVICE, "__fmaf_rd(a, b, c)", "__fmaf_rn(a, b, c)"),
        GpuMutant("permutation", _DEVICE, "prmt.b32 %0, %1, 0, %2", "prmt.b32 %0, 0, %1, %2"),
    ]


def barriers() -> Iterator[GpuMutant]:
    """Every barrier of the product's kernels, left to the emulation only."""
    for kernel in ("direct", "winograd", "popc", "pool_dense"):
        file = f"{kernel}/kernel.cu"
        for number in range((SOURCES / file).read_text("utf-8").count(_BARRIER)):
            yield GpuMutant(kernel, file, _BARRIER, _ONLY_EMULATED, number)


class MutatedCompiler:
    """Compiles the kernels with one mutant from a copy of the sources in `folder`."""

    def __init__(self, compiler: Compiler, mutant: GpuMutant, folder: Path) -> None:
        self._compiler = compiler
        self._folder = folder
        for path in SOURCES.rglob("*.cu*"):
            copy = folder / path.relative_to(SOURCES)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copy)
        file = folder / mutant.file
        parts = file.read_text("utf-8").split(mutant.before)
        assert len(parts) > mutant.number + 1, f"{mutant.file} has no {mutant.before}"
        parts[mutant.number : mutant.number + 2] = [mutant.after.join(parts[mutant.number : mutant.number + 2])]
        file.write_text(mutant.before.join(parts))

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A cubin of the mutated source."""
        if source.text:
            (self._folder / source.path).write_text(source.text, "utf-8")
        changed = [each.replace(str(SOURCES), str(self._folder)) for each in options(source, architecture)]
        return self._compiler.tool.run(self._folder / source.path, changed)[0]
