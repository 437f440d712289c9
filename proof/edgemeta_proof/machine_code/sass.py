"""Disassembles the machine code of a cubin (SASS) with nvdisasm and parses the listing.

nvdisasm of CUDA 12 supports every generation since sm_50; that of CUDA 13 refuses sm_53. The triton wheel contains
version 12.8.
"""

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path

from edgemeta.kernels.cuda.compile.nvcc import toolkit_folders
from edgemeta.model.errors import EdgemetaError

_LINE = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:\{\s+)?(?:@(!?)(U?P[T0-9]+)\s+)?([A-Z0-9_.]+)\s*(.*)")
_LABEL = re.compile(r"^\.?(\S+):$")
_TARGET = re.compile(r"`\(([^)]+)\)")
_SYNC_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]+)"')
_DEADLINE = 120.0


class SassError(EdgemetaError):
    """Machine code that cannot be disassembled or counted; one sentence."""


@dataclass(frozen=True)
class Instruction:
    """One machine instruction.

    guard: the predicate register that enables it, None for always; negated: enabled if the predicate is false.
    opcode: with its modifiers, "ISETP.GE.AND". operands: as printed, without spaces and reuse flags, destination first.
    target: index of the target instruction of a branch; None if there is none, or several.
    """

    address: int
    guard: str | None
    negated: bool
    opcode: str
    operands: tuple[str, ...]
    target: int | None = None

    @property
    def base(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """The opcode's modifiers, in order."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class Code:
    """A kernel's instructions in address order, and the constants in bank 2 that its code reads, by offset."""

    instructions: tuple[Instruction, ...]
    constants: Mapping[int, int]


@lru_cache(maxsize=256)
def disassemble(cubin: bytes, entry: str) -> Code:
    """The code of one kernel of a cubin, kept for further calls with the same.

    Raises SassError without a disassembler or if all refuse the cubin.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        reasons = []
        for tool in disassemblers():
            done = subprocess.run(
                [str(tool), "--print-code", file.name], capture_output=True, text=True, timeout=_DEADLINE
            )
            if done.returncode == 0:
                return Code(parse(done.stdout, entry), constants(cubin, entry))
            reasons.append(f"{tool}: {' '.join((done.stderr or done.stdout).split())}")
    raise SassError(f"no disassembler can read this cubin: {'; '.join(reasons)}")


@cache
def disassemblers() -> tuple[Path, ...]:
    """Every nvdisasm of this machine, the wheel's first. Raises SassError if there is none."""
    spec = find_spec("triton")
    wheel = [Path(folder) / "backends/nvidia/bin" for folder in (spec and spec.submodule_search_locations) or ()]
    folders = [*wheel, *(folder / "bin" for folder in toolkit_folders())]
    named = [shutil.which(str(folder / "nvdisasm")) for folder in folders] + [shutil.which("nvdisasm")]
    found = tuple(dict.fromkeys(Path(name) for name in named if name))
    if not found:
        raise SassError(
            "no disassembler: nvdisasm is not on PATH, in CUDA_HOME or /usr/local/cuda, and the wheel triton==3.6.0 "
            "is not installed; pip install 'edgemeta[report]' installs one"
        )
    return found


def parse(text: str, entry: str) -> tuple[Instruction, ...]:
    """Parse nvdisasm's listing of one kernel, without the padding at its end. Raises SassError."""
    _, _, section = text.partition(f"\n.text.{entry}:\n")
    if not section:
        raise SassError(f"the disassembly has no kernel {entry}")
    labels: dict[str, int] = {}
    rows: list[tuple[int, str | None, bool, str, tuple[str, ...], str | None]] = []
    for line in section.splitlines():
        if "//------" in line:
            break
        label = _LABEL.match(line.strip())
        if label:
            labels["." + label[1]] = len(rows)
            continue
        found = _LINE.search(line)
        if found:
            address, negated, guard, opcode, rest = found.groups()
            rows.append((int(address, 16), guard, bool(negated), opcode, *_operands(rest)))
    return tuple(
        Instruction(address, guard, negated, opcode, operands, labels.get(target or ""))
        for address, guard, negated, opcode, operands, target in rows
    )


def _operands(text: str) -> tuple[tuple[str, ...], str | None]:
    """The operands and the target label of an instruction."""
    sync = _SYNC_TARGETS.search(text)
    plain = re.sub(r"\(\*.*\*\)", "", text).replace("}", "").split(";")[0]
    direct = _TARGET.search(plain)
    plain = _TARGET.sub("", plain).replace(" ", "").replace("\t", "").replace(".reuse", "")
    operands = tuple(operand for operand in plain.split(",") if operand)
    label = direct[1] if direct else sync[1].strip() if sync else None
    return operands, label


def constants(cubin: bytes, entry: str) -> dict[int, int]:
    """Words of the section .nv.constant2.ENTRY, by offset: constants too wide for an instruction. Empty if none."""
    for name, data, _ in sections(cubin):
        if name == f".nv.constant2.{entry}":
            return {offset: struct.unpack_from("<I", data, offset)[0] for offset in range(0, len(data) - 3, 4)}
    return {}


def sections(elf: bytes) -> Iterator[tuple[str, bytes, int]]:
    """Name, content and size of every section of a 64-bit little-endian ELF file (System V ABI, chapter 4).

    A section of memory to reserve has a size, but its content is not in the file.
    """
    table, size, count, names = struct.unpack_from("<Q", elf, 0x28) + struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * number) for number in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        start = strings + name
        yield elf[start : elf.index(b"\0", start)].decode(), elf[offset : offset + length], length
