"""What one call touches: instructions, lines and pages of code and data, of our cpu backend and of LiteRT.

    python benchmarks/cold_calls.py [--networks ResNet-8 ...] [--isas avx2 ...] [--keep]

With a frame every 10 ms the caches are cold: a call pays for each line of 64 bytes and each page of 4 KiB that it
touches, however often it does. Times tell that badly on a machine with other work; these counts differ by at most 0.1 %
from run to run. Each runtime has a process of its own, as in networks.py, without random addresses; after the calls
that warm it up this program goes through one call instruction by instruction (ptrace) and keeps the registers, and
objdump decodes each distinct instruction, so that the address of every operand in memory is known. It is the code that
is timed, AVX-512 included. Files and networks are those of networks.py; one thread.

Library: what runs in the runtime's own library, bindings included. libc: copies and fills, whoever asks for them.
Python: everything else, the interpreter, ctypes, NumPy. Read: data that the call does not write, so weights, tables,
arguments, objects. Written: activations, stack. An operand that crosses a line counts for both. --keep writes
results/cold-calls.{json,md}. Needs x86-64, objdump (binutils) and leave to trace processes of one's own.
"""

import argparse
import ctypes
import operator
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import NETWORKS, OURS, entries
from benchmarks.result_file import as_run, write_json, write_markdown
from benchmarks.runtime_turns import REPOSITORY

LIBRARIES = {"libedgemeta_cpu": "library", "ai_edge_litert": "library", "/libc.so": "libc"}
"""Parts of a call by what the path of their code contains; all other code is Python's."""
PEER = "LiteRT int8"
PARTS = ("library", "libc", "Python")
TRACE_ME, READ_REGISTERS, STEP = 0, 12, 9  # requests of ptrace
REGISTERS = (
    *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8", "rax", "rcx", "rdx", "rsi", "rdi"),
    *("orig_rax", "rip", "cs", "eflags", "rsp", "ss", "fs_base", "gs_base", "ds", "es", "fs", "gs"),
)
"""As Linux orders them."""
LINE, PAGE = 64, 4096
RECORD = 32  # bytes of an instruction for objdump: its own, then no operations
CALL = """
import sys
from pathlib import Path
from benchmarks.runtime_process import WARM_UP_RUNS, opened
call = opened(sys.argv[1], Path(sys.argv[2]), 1)
for _ in range(WARM_UP_RUNS):
    call()
"""
MARKED = f"""
import ctypes, signal
stop = lambda: signal.raise_signal(signal.SIGSTOP)
nothing = lambda: None
ctypes.CDLL(None).ptrace({TRACE_ME}, 0, None, None)
for each in nothing, call:
    stop()
    each()
stop()
"""
"""Stops before an empty function, before `call`, and at the end."""

_OPERAND = re.compile(r"(?:%([fg]s):)?(-?0x[0-9a-f]+)?\(((?:%|,)[^)]*)\)|%([fg]s):(0x[0-9a-f]+)")
_TARGET = re.compile(r"# 0x([0-9a-f]+)")
_NO_ACCESS = re.compile(r"lea|nop|prefetch|endbr")
_READS_LAST = re.compile(r"cmp(?!xchg)|test|push|call|jmp|i?mul|i?div|bt[bwlq]?$|v?u?comis|v?ptest|ldmxcsr|vldmxcsr")
_MOVED = re.compile(r"vpmov(?:zx|sx|us|s)?([bwdq])([bwdq])")
_PREFIXES = {"rep", "repz", "repnz", "lock", "bnd", "notrack", "data16", "addr32", "cs", "rex.W", "{vex}", "{evex}"}
_ELEMENT = {"b": 1, "w": 2, "d": 4, "q": 8}

Rows = NDArray[np.uint64]
"""[steps, REGISTERS], before each instruction."""


@dataclass(frozen=True)
class Operand:
    """In memory, at displacement + base + scale x index, of at most `width` bytes; registers by their places."""

    displacement: int
    registers: tuple[tuple[int, int], ...]  # place in REGISTERS, factor
    width: int
    written: bool


@dataclass
class Touched:
    """By some instructions: distinct lines, by their addresses / LINE."""

    instructions: int = 0
    code: set[int] = field(default_factory=set)
    data: set[int] = field(default_factory=set)
    written: set[int] = field(default_factory=set)

    def __or__(self, other: "Touched") -> "Touched":
        return Touched(
            self.instructions + other.instructions,
            self.code | other.code,
            self.data | other.data,
            self.written | other.written,
        )

    def counts(self) -> dict[str, int]:
        """The columns of the table."""
        return {
            "instructions": self.instructions,
            "code_lines": len(self.code),
            "read_lines": len(self.data - self.written),
            "written_lines": len(self.written),
            "code_pages": len(_pages(self.code)),
            "data_pages": len(_pages(self.data)),
        }


def main() -> None:
    """Count and print; write with --keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["ResNet-8"])
    parser.add_argument("--isas", nargs="*", default=[], help="instruction sets of ours to force, too")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    given = argparse.Namespace(attention=None, yolox=None, yolox_model=None, tflite=None)
    arguments = parser.parse_args(namespace=given)
    arguments.only = [PEER, *(f"{OURS} {isa}" for isa in arguments.isas)]
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for entry in entries(arguments, Path(folder)):
            results[entry.name] = {name: of_call(kind, file) for name, (kind, file) in entry.files.items()}
    text = table(results)
    print(text)
    if arguments.keep:
        command = as_run("cold_calls")
        write_json("cold-calls", command, {"networks": results})
        head = (
            "One call after 20 others, one thread: instructions, and what they touch, distinct lines of 64 bytes and "
            "pages of 4 KiB. Read: data that is not written. Empty: a call of an empty function, from one stop to the "
            "next, which is part of each call."
        )
        write_markdown("cold-calls", command, f"{head}\n\n{text}")


def of_call(kind: str, file: Path) -> dict[str, Any]:
    """The counts of a call of a runtime (runtime_process.RUNTIMES), by part."""
    empty, call = stretches([sys.executable, "-c", CALL + MARKED, kind, str(file)])
    rows = {"call": joined(call), **call, "empty": joined(empty)}
    return {part: touched.counts() for part, touched in rows.items()}


def joined(parts: Mapping[str, Touched]) -> Touched:
    """What all of them touch."""
    return reduce(operator.or_, parts.values(), Touched())


def stretches(command: Sequence[str]) -> list[dict[str, Touched]]:
    """What a program touches between the times that it stops itself, by PARTS."""
    environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(["setarch", "-R", *command], cwd=REPOSITORY, env=environment)
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise SystemExit(f"{command[0]} ended before its first stop, with status {status}")
        return [touched(*each) for each in (stretch(process.pid), stretch(process.pid))]
    finally:
        process.kill()
        process.wait()


def stretch(pid: int) -> tuple[Rows, list[str], list[str]]:
    """Step through a stopped process up to its next stop.

    Returns the registers before each step, and of each distinct address in order its text and part.
    """
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes, call.restype = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p), ctypes.c_long
    registers, taken = (ctypes.c_uint64 * len(REGISTERS))(), bytearray()
    while True:
        if call(READ_REGISTERS, pid, None, ctypes.addressof(registers)) or call(STEP, pid, None, None):
            raise SystemExit(f"cannot trace process {pid}: {os.strerror(ctypes.get_errno())}")
        taken += registers
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            raise SystemExit(f"process {pid} ended in the middle, with status {status}")
        if os.WSTOPSIG(status) == signal.SIGSTOP:
            break
    rows = np.frombuffer(bytes(taken), np.uint64).reshape(-1, len(REGISTERS))
    addresses = [int(each) for each in np.unique(rows[:, REGISTERS.index("rip")])]
    parts = [
        (range(*(int(end, 16) for end in line.split()[0].split("-"))), part)
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
        for name, part in LIBRARIES.items()
        if name in line
    ]
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        code = [os.pread(memory.fileno(), 16, address) for address in addresses]
    of_address = [next((part for each, part in parts if at in each), PARTS[-1]) for at in addresses]
    return rows, disassembled(code), of_address


def disassembled(code: Sequence[bytes]) -> list[str]:
    """The first instruction of each of `code`; a target relative to `rip` is that of code at 0, as `# 0x...`."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"".join(each.ljust(RECORD, b"\x90") for each in code))
        file.flush()
        command = ["objdump", "-D", "-z", "-w", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn", file.name]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        place, colon, text = line.partition(":\t")
        if colon and int(place, 16) % RECORD == 0:
            at = int(place, 16)
            found[at] = _TARGET.sub(lambda target, at=at: f"# {int(target[1], 16) - at:#x}", text)  # type: ignore[misc]
    return [found[at] for at in range(0, RECORD * len(code), RECORD)]


def operands(text: str) -> list[Operand]:
    """The operands in memory of an instruction as objdump writes it, those of the stack included.

    Raises ValueError for a register that is none of REGISTERS, such as a gather's.
    """
    words = [word for word in text.partition("#")[0].split() if word not in _PREFIXES]
    name, instruction = words[0], " ".join(words)
    rsp = REGISTERS.index("rsp")
    found = []
    if name.startswith(("push", "call")):
        found.append(Operand(-8, ((rsp, 1),), 8, True))
    if name.startswith(("pop", "ret", "leave")):
        found.append(Operand(0, ((REGISTERS.index("rbp") if name.startswith("leave") else rsp, 1),), 8, False))
    if _NO_ACCESS.match(name):
        return found
    for match in _OPERAND.finditer(instruction):
        segment, displacement, inner, other_segment, absolute = match.groups()
        base, index, scale = [*(inner or "").replace("%", "").split(","), "", "", ""][:3]
        places = {base: 1} if base else {}
        if index:
            places[index] = places.get(index, 0) + int(scale or "1")
        if segment or other_segment:
            places[f"{segment or other_segment}_base"] = 1
        relative = _TARGET.search(text)
        start = int(displacement or absolute or "0", 16)
        if base == "rip" and relative is not None:
            start = int(relative[1], 16)
        registers = tuple((REGISTERS.index(each), factor) for each, factor in places.items())
        is_last = re.fullmatch(r"(\{%k\d\})?", instruction[match.end() :]) is not None
        found.append(Operand(start, registers, width(instruction), is_last and not _READS_LAST.match(name)))
    return found


def width(instruction: str) -> int:
    """Bytes of its operand in memory, at most."""
    sizes = {"%zmm": 64, "%ymm": 32, "%xmm": 16}
    vector = next((size for name, size in sizes.items() if name in instruction), 0)
    if vector == 0 or "{1to" in instruction or "broadcasts" in instruction or "vpbroadcast" in instruction:
        return 8
    if moved := _MOVED.match(instruction):
        few, many = sorted(_ELEMENT[each] for each in moved.groups())
        return vector * few // many
    return 16 if re.match(r"v?(extract|insert|broadcast)\w*(128|x4)", instruction) else vector


def touched(rows: Rows, texts: Sequence[str], parts: Sequence[str]) -> dict[str, Touched]:
    """What the instructions of each part touch. Raises SystemExit for an operand not understood."""
    found = {part: Touched() for part in PARTS}
    addresses, which = np.unique(rows[:, REGISTERS.index("rip")], return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.searchsorted(which[order], np.arange(len(addresses) + 1))
    for number, (text, name) in enumerate(zip(texts, parts, strict=True)):
        part = found[name]
        taken = rows[order[ends[number] : ends[number + 1]]]
        part.instructions += len(taken)
        part.code |= _lines(addresses[number : number + 1], 1)
        for operand in _followed(text):
            at = np.full(len(taken), operand.displacement % 2**64, np.uint64)
            for place, factor in operand.registers:
                at += taken[:, place] * np.uint64(factor)
            lines = _lines(at, operand.width)
            part.data |= lines
            if operand.written:
                part.written |= lines
    return found


def _followed(text: str) -> Iterator[Operand]:
    try:
        yield from operands(text)
    except ValueError as error:
        raise SystemExit(f"{text}: {error}") from error


def _lines(addresses: NDArray[np.uint64], size: int) -> set[int]:
    ends = np.concatenate([addresses, addresses + np.uint64(size - 1)])
    return set(np.unique(ends // np.uint64(LINE)).tolist())


def _pages(lines: set[int]) -> set[int]:
    return {line * LINE // PAGE for line in lines}


def table(results: Mapping[str, Mapping[str, Mapping[str, Mapping[str, int]]]]) -> str:
    """The Markdown table."""
    lines = [
        "| network | runtime | part | instructions | code, lines | data read, lines | written, lines | code, pages "
        "| data, pages |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for network, runtimes in results.items():
        for runtime, parts in runtimes.items():
            for part, counts in parts.items():
                numbers = " | ".join(f"{each:,}" for each in counts.values())
                lines.append(f"| {network} | {runtime} | {part} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
