"""PTX of kernels, and the PTX of a single function of the kernels' headers."""

import re
from pathlib import Path

from edgemeta.kernels.cuda.compile.compiler import SOURCES, options
from edgemeta.kernels.cuda.compile.nvrtc import Nvrtc, wheel_library
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source

_ACCESS = re.compile(r"(ld|st)\.global\.\w+ (.*)")
_OFFSET = re.compile(r"\[%rd\d+(?:\+(\d+))?\]")
_INSTRUCTION = re.compile(r"(?!ld\.param|cvta|ret)(?:\{ \.reg|[a-z]\w*\.).*")


def ptx_of(source: Source, architecture: Architecture) -> str:
    """PTX from NVRTC's front end for a variant; ptxas compiles it to machine code."""
    library = wheel_library()
    assert library is not None
    return Nvrtc(library, "wheel").ptx(SOURCES / source.path, options(source, architecture))


def body_of(header: str, statements: str, architecture: Architecture, folder: Path) -> list[str]:
    """Instructions of `statements` in a kernel that reads words in[0], in[1], …, named a, b, …, and writes out[0], ….

    Without loads, addresses and comments; other registers are t0, t1, … in order; the stored values are last.
    """
    path = folder / "kernel.cu"
    head = 'extern "C" __global__ void kernel(int* out, const int* in)'
    path.write_text(f'#include "{header}"\n{head} {{ {statements} }}\n')
    text = ptx_of(Source(str(path), "kernel", ()), architecture)
    names: dict[str, str] = {}
    found, stored = [], []
    for line in text[text.index(".entry") :].splitlines():
        words = " ".join(line.split()).rstrip(";")
        if access := _ACCESS.fullmatch(words):
            if access[1] == "ld":
                register, address = access[2].split(", ")
                names[register] = "abcdefghij"[_offset(address) // 4]
            else:
                stored.append(access[2].split(", ")[1])
        elif _INSTRUCTION.fullmatch(words):
            found.append(words)

    def named(match: re.Match[str]) -> str:
        return names.setdefault(match[0], f"t{sum(name.startswith('t') for name in names.values())}")

    lines = [*found, *([f"store {', '.join(stored)}"] if stored else [])]
    return [re.sub(r"%\w+", named, words) for words in lines]


def _offset(address: str) -> int:
    found = _OFFSET.fullmatch(address)
    assert found is not None, address
    return int(found[1] or 0)
