"""Cycles that llvm-mca predicts for the inner loops of ARM's convolutions, beside XNNPACK's: no processor was asked.

    python benchmarks/arm_cycles.py --xnnpack FOLDER [--keep]

FOLDER: a checkout of github.com/google/XNNPACK; the assembly that it takes for int8 on Linux on each of these cores
(src/configs/gemm-config.c) is assembled here, ours is cross-compiled. Needs Debian's llvm-19, g++-aarch64-linux-gnu and
qemu-user. --keep writes results/arm-cycles.{json,md}.

Counted is the window of a tile: all taps of C input channels, bounds of loops and pointers included, everything in the
first cache, every branch foreseen; neither side's requantization. Winograd's form includes its transforms. LLVM has no
model of Cortex-A76, and that of Neoverse N1, the same core for servers, stands for it; Cortex-A72's is that of A57.
The floor is what a loop's multiplications and additions of products take with nothing beside them.
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.result_file import write_json, write_markdown
from rig.arm.machines import AARCH64, build, require

CORES = {"A53": "cortex-a53", "A55": "cortex-a55", "A72": "cortex-a72", "A76": "neoverse-n1"}
"""Names of LLVM's models."""
DOTPROD = ("A55", "A76")
CHANNELS = (16, 64)
REPEATS = 100
COMMAND = "python benchmarks/arm_cycles.py --xnnpack FOLDER"
PRODUCTS = {"smull": 8, "smull2": 8, "smlal": 8, "smlal2": 8, "sdot": 16}
"""Of bytes, by instruction; smull and smlal of four int32 make half as many."""
BRANCH = re.compile(r"(b\.\w+|b|cbn?z|tbn?z)\t(.*?)([0-9a-f]+)$")

Code = Sequence[tuple[int, str]]
"""Addresses and instructions of a function."""


@dataclass(frozen=True)
class Kernel:
    """Where a loop is, and the tile it makes: pixels by outputs; an iteration of the loop around it has `taps` taps.

    has: an instruction of the loop; number: of such loops of the function, in which order.
    """

    file: str
    function: str
    pixels: int
    outputs: int
    taps: int = 1
    has: str = ""
    number: int = 0


@dataclass(frozen=True)
class Prediction:
    """Cycles of a window 3 x 3 (or of one tap) for one output of one pixel, per input channel and tap."""

    form: str
    whose: str
    core: str
    channels: int
    cycles: float
    floor: float


NEON, DOT = "edgemeta_cpu_neon.dir/src/isa/", "edgemeta_cpu_dotprod.dir/src/isa/"
_TILE = r"run_tiles<4>\("
OURS = {
    "neon": {"tile": Kernel(NEON + "conv.cpp.o", _TILE, 4, 4, 3, "smlal2")},
    "dotprod": {
        "tile": Kernel(DOT + "conv.cpp.o", _TILE, 4, 16, 1),
        "tile, 3x3 of stride 1": Kernel(DOT + "conv.cpp.o", _TILE, 4, 16, 3, number=1),
    },
}
WINOGRAD = NEON + "winograd_arm.cpp.o"
_PEER = "src/qs8-qc8w-igemm/gen/qs8-qc8w-igemm-{}-minmax-fp32-asm-aarch64-{}.S"
XNNPACK = {
    "A53": Kernel(_PEER.format("4x16", "neon-mlal-lane-cortex-a53-prfm"), ".", 4, 16),
    "A55": Kernel(_PEER.format("4x16c4", "neondot-cortex-a55"), ".", 4, 16),
    "A72": Kernel(_PEER.format("2x8c8", "neon-mlal-prfm"), ".", 2, 8),
    "A76": Kernel(_PEER.format("4x16c4", "neondot-ld128"), ".", 4, 16),
}


def main() -> None:
    """Predict, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xnnpack", type=Path, required=True)
    parser.add_argument("--keep", action="store_true")
    arguments = parser.parse_args()
    model, disassembler = newest("llvm-mca"), "aarch64-linux-gnu-objdump"
    require({disassembler: "binutils-aarch64-linux-gnu"}, "disassembler for ARM")
    build(AARCH64)
    found = [*ours(model), *theirs(model, arguments.xnnpack)]
    text = table(found)
    print(text)
    if arguments.keep:
        version = run(model, "--version").splitlines()[0].strip()
        write_json("arm-cycles", COMMAND, {"model": version, "rows": [asdict(each) for each in found]})
        write_markdown("arm-cycles", COMMAND, f"{version}. A prediction, not a measurement.\n\n{text}")


def ours(model: str) -> list[Prediction]:
    """Our forms on each core: tiles of both kernels, and Winograd where there is no dot product."""
    objects = AARCH64.folder / "kernels/cpu/CMakeFiles"
    rows = []
    for core in CORES:
        isa = "dotprod" if core in DOTPROD else "neon"
        for channels in CHANNELS:
            for form, kernel in OURS[isa].items():
                rows.append(window(model, objects / kernel.file, kernel, form, core, channels))
            if isa == "neon":
                rows.append(winograd(model, objects / WINOGRAD, core, channels))
    return rows


def theirs(model: str, folder: Path) -> list[Prediction]:
    """XNNPACK's choice on each core: one loop for all windows."""
    rows = []
    with tempfile.TemporaryDirectory() as place:
        for core, kernel in XNNPACK.items():
            target = Path(place) / f"{core}.o"
            options = ["-c", "-march=armv8.2-a+dotprod", f"-I{folder}", "-o", str(target)]
            run("aarch64-linux-gnu-gcc", *options, str(folder / kernel.file))
            for channels in CHANNELS:
                rows.append(window(model, target, kernel, "tile", core, channels, "XNNPACK"))
    return rows


def window(
    model: str, file: Path, kernel: Kernel, form: str, core: str, channels: int, whose: str = "ours"
) -> Prediction:
    """The loop around an inner loop with multiplications, the inner one as often as the channels need it."""
    code = function(file, kernel.function)
    inner = [each for each in innermost(code) if products(code[slice(*each)]) and has(code, each, kernel.has)]
    path, count = unrolled(code, inner[kernel.number], kernel.pixels * kernel.outputs * kernel.taps * channels)
    return Prediction(form, whose, core, channels, cycles(model, core, path) / count, floor(model, core, path) / count)


def winograd(model: str, file: Path, core: str, channels: int) -> Prediction:
    """Four tiles of 4 x 4 pixels by sixteen outputs, with as many outputs as channels: products and both transforms."""
    code = function(file, r"multiply<4>\(")
    inner = next(each for each in innermost(code) if products(code[slice(*each)]))
    path, _ = unrolled(code, inner, 4 * 16 * channels)
    whole = function(file, r"conv_winograd\(")
    loops = [whole[slice(*each)] for each in innermost(whole)]
    loaded = max((each for each in loops if any("smlsl" in text for _, text in each)), key=len)
    stored = max((each for each in loops if any("smlsl" not in text and "mul\t" in text for _, text in each)), key=len)
    transforms = 4 * cycles(model, core, loaded) + 16 * cycles(model, core, stored)
    count = 4 * 16 * 16 * 9 * channels
    least = 36 * floor(model, core, path) / count
    return Prediction(
        "Winograd, 3x3 of stride 1",
        "ours",
        core,
        channels,
        (36 * cycles(model, core, path) + transforms) / count,
        least,
    )


def function(file: Path, name: str) -> Code:
    """A function of an object file by a pattern of its name."""
    code: list[tuple[int, str]] = []
    inside = False
    for line in run("aarch64-linux-gnu-objdump", "-dC", "--no-show-raw-insn", str(file)).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            if code:
                break
            inside = re.search(name, head[1]) is not None
        elif inside and (step := re.match(r"\s*([0-9a-f]+):\t(.*?)\s*(//.*)?$", line)):
            code.append((int(step[1], 16), step[2].split(" <")[0]))
    if not code:
        raise SystemExit(f"{file}: no function {name}")
    return code


def loops(code: Code) -> list[tuple[int, int]]:
    """From the target of each branch backwards to behind it."""
    places = {address: index for index, (address, _) in enumerate(code)}
    found = []
    for index, (address, text) in enumerate(code):
        branch = BRANCH.match(text)
        if branch and int(branch[3], 16) in places and int(branch[3], 16) <= address:
            found.append((places[int(branch[3], 16)], index + 1))
    return found


def innermost(code: Code) -> list[tuple[int, int]]:
    """Loops that hold no other."""
    every = loops(code)
    return [(s, e) for s, e in every if not any(s <= a and b <= e and (a, b) != (s, e) for a, b in every)]


def has(code: Code, loop: tuple[int, int], word: str) -> bool:
    """Whether an instruction of that name is in the loop."""
    return any(text.startswith(word) for _, text in code[slice(*loop)])


def unrolled(code: Code, inner: tuple[int, int], needed: int) -> tuple[Code, int]:
    """One iteration of the loop around `inner`, with as many of `inner` as make the products, and these products."""
    start, end = inner
    around = min(
        ((s, e) for s, e in loops(code) if s <= start and end <= e and (s, e) != inner), key=lambda x: x[1] - x[0]
    )
    before, body, after = code[around[0] : start], code[start:end], code[end : around[1]]
    times, rest = divmod(needed - products(before) - products(after), products(body))
    if rest or times < 0:
        raise SystemExit(f"{products(body)} products of a loop do not make {needed}")
    return [*before, *(list(body) * times), *after], needed


def products(code: Code) -> int:
    """Products that instructions make, of bytes or of int16."""
    return sum(
        PRODUCTS[name] // (2 if "h, " in text and ".4s" in text.split(",")[0] and name != "sdot" else 1)
        for _, text in code
        if (name := text.split("\t")[0]) in PRODUCTS
    )


def floor(model: str, core: str, code: Code) -> float:
    """Cycles of the multiplications and additions of products alone, by the ports that they have."""
    only = [each for each in code if each[1].split("\t")[0] in {*PRODUCTS, "sadalp"}]
    return _figure(model, core, only, 1, lambda text: float(re.findall(r"Block RThroughput: ([\d.]+)", text)[0]))


def cycles(model: str, core: str, code: Code) -> float:
    """Cycles of a run of instructions that follows itself."""
    times = REPEATS
    return _figure(model, core, code, times, lambda text: int(re.findall(r"Total Cycles:\s+(\d+)", text)[0]) / times)


def _figure(model: str, core: str, code: Code, times: int, read: Callable[[str], float]) -> float:
    lines = [BRANCH.sub(r"\1\t\2.Ltop", text) for _, text in code]
    options = ["-mtriple=aarch64", f"-mcpu={CORES[core]}", "-mattr=+dotprod", f"-iterations={times}"]
    return read(run(model, *options, text="\n".join([".Ltop:", *lines, ""])))


def newest(program: str) -> str:
    """Debian's newest program of LLVM."""
    found = [name for number in range(30, 15, -1) if (name := shutil.which(f"{program}-{number}"))]
    if not found:
        raise SystemExit(f"no {program} of LLVM 16 or later (Debian package llvm-19)")
    return found[0]


def run(*command: str, text: str | None = None) -> str:
    """What a program prints."""
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def table(rows: Sequence[Prediction]) -> str:
    """Cycles per 1,000 multiply-accumulates of the convolution, the floor, XNNPACK's, and the ratio."""
    peers = {(each.core, each.channels): each for each in rows if each.whose == "XNNPACK"}
    lines = [
        "Cycles for 1,000 multiply-accumulates of the convolution; in brackets the floor of the multiplications.",
        "",
        "| core | form | channels | ours | XNNPACK's | ours / XNNPACK's |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for each in sorted(rows, key=lambda row: (row.core, row.form, row.channels)):
        if each.whose == "ours":
            peer = peers[each.core, each.channels]
            lines.append(
                f"| {each.core} | {each.form} | {each.channels} | {_both(each)} | {_both(peer)} "
                f"| {each.cycles / peer.cycles:.2f} |"
            )
    return "\n".join(lines)


def _both(row: Prediction) -> str:
    return f"{1000 * row.cycles:.1f} ({1000 * row.floor:.1f})"


if __name__ == "__main__":
    main()
