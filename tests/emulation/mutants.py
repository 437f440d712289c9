"""Mutants of the kernels: one barrier removed, one bound check that always passes, or wrong arithmetic."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import files_of
from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta_proof.baselines.source import FOLDER as BASELINES
from edgemeta_proof.baselines.source import baseline_source, files_of_baseline
from tests.emulation.compiler import EmulationCompiler
from tests.emulation.executor import cached

_BARRIER = re.compile(r"__sync(?:threads|warp)\(\);")
# `index < BOUND` lets pass, `index >= BOUND` keeps out: an operand has none of these, but it may have calls and casts.
_PLAIN = r"[^(){},<>&|;=?!]"
_OPERAND = rf"(?:\(\w+\))?(?! ){_PLAIN}+(?:\([^()]*\){_PLAIN}*)*?"
_BOUND = re.compile(rf"(?<=[(,=&| ])({_OPERAND}) (<|>=) ({_OPERAND})(?= ?[)&|;?}},])")
_LOOP = re.compile(r"\bfor \(|static_assert|template <|^\s*//|#")
_REQUANTIZE, _RESIDUAL = "include/requantize.cuh", "include/residual.cuh"

_HALF = "1LL << (channel.term - 1) : 0"
_PRODUCT = "(long long)accumulator * channel.factor"
_BIT = "(value >> shift) + (value >> (shift - 1) & 1)"
_CLAMP = "clamp((sum >> ADD_SHIFT) + ADD_ZERO, ADD_LO, ADD_HI)"
ARITHMETIC: dict[str, tuple[tuple[str, str], ...]] = {
    # form of requantize.cuh, or ADD (residual.cuh): (right, wrong), each right text once in the file
    "MULTIPLIER": (
        (_HALF, "(1LL << (channel.term - 1)) - 1 : 0"),
        (_HALF, "(1LL << (channel.term - 1)) + 1 : 0"),
        (_HALF, "0 : 0"),
        (_PRODUCT, "(long long)(int)((unsigned)accumulator * (unsigned)channel.factor)"),
        (_PRODUCT, "(long long)(float)accumulator * channel.factor"),
        ("+ half) >> channel.term", "+ half) >> (channel.term + 1)"),
        ("+ half) >> channel.term", "+ half) >> (channel.term > 0 ? channel.term - 1 : 0)"),
        ("shifted + R::zero", "shifted"),
        ("(long long)R::lo)", "(long long)R::lo + 1)"),
        ("(long long)R::hi)", "(long long)R::hi - 1)"),
    ),
    "TABLE": (
        (_BIT, "(value >> shift)"),
        (_BIT, "(value >> shift) + (value >> (shift - 1) & value >> shift & 1)"),
        (_BIT, "(value >> (shift - 1))"),
        ("(accumulator, channel.term), -128, 127)", "(accumulator, channel.term), -127, 127)"),
        ("(accumulator, channel.term), -128, 127)", "(accumulator, channel.term), -128, 126)"),
    ),
    "LINE": (
        ("const float u = __fmaf_rn(", "const float u = fma_down("),
        ("on_line(__int_as_float(sum), channel, lo, hi)", "on_line(__int_as_float(sum), channel, lo + 1, hi)"),
        ("on_line(__int_as_float(sum), channel, lo, hi)", "on_line(__int_as_float(sum), channel, lo, hi - 1)"),
        ("on_line(__int_as_float(sum), channel, lo, hi)", "on_line(__int_as_float(sum + 1), channel, lo, hi)"),
    ),
    "CONVERTED_LINE": (
        ("on_line(__int2float_rn(sum), channel, lo, hi)", "on_line(__int2float_rn(sum), channel, lo + 1, hi)"),
        ("on_line(__int2float_rn(sum), channel, lo, hi)", "on_line(__int2float_rn(sum), channel, lo, hi - 1)"),
        ("on_line(__int2float_rn(sum), channel, lo, hi)", "on_line(__int2float_rn(sum + 1), channel, lo, hi)"),
    ),
    "FINE_LINE": (
        ("const float sum = fma_down(", "const float sum = __fmaf_rn("),
        ("add_down(sum, __int_as_float(MAGIC_BITS))", "sum + __int_as_float(MAGIC_BITS)"),
        (
            "return on_fine_line(__int2float_rn(sum), channel, lo, hi)",
            "return on_fine_line(__int2float_rn(sum), channel, lo + 1, hi)",
        ),
        (
            "return on_fine_line(__int2float_rn(sum), channel, lo, hi)",
            "return on_fine_line(__int2float_rn(sum), channel, lo, hi - 1)",
        ),
        (
            "return on_fine_line(__int2float_rn(sum), channel, lo, hi)",
            "return on_fine_line(__int2float_rn(sum + 1), channel, lo, hi)",
        ),
    ),
    "SHIFTED_LINE": (
        ("(sum >> channel.shift) + channel.offset", "(sum - 1 >> channel.shift) + channel.offset"),
        ("(sum >> channel.shift) + channel.offset", "(sum + 1 >> channel.shift) + channel.offset"),
        ("(sum >> channel.shift) + channel.offset", "(sum >> channel.shift + 1) + channel.offset"),
        ("own.x + MAGIC_BITS", "own.x + MAGIC_BITS + 1"),
        ("own.y + MAGIC_BITS", "own.y + MAGIC_BITS - 1"),
    ),
    "ADD": (
        ("& 0x7FFF, ADD_BIAS)", "& 0x7FFF, ADD_BIAS - 1)"),
        ("& 0x7FFF, ADD_BIAS)", "& 0x7FFF, ADD_BIAS + 1)"),
        ("<< 15)", "<< 14)"),
        ("multiply_add_low(own, ADD_OWN >> 15,", "multiply_add_low(own, 0,"),
        (_CLAMP, "clamp((sum >> ADD_SHIFT + 1) + ADD_ZERO, ADD_LO, ADD_HI)"),
        (_CLAMP, "clamp((sum >> ADD_SHIFT) + ADD_ZERO, ADD_LO + 1, ADD_HI)"),
        (_CLAMP, "clamp((sum >> ADD_SHIFT) + ADD_ZERO, ADD_LO, ADD_HI - 1)"),
    ),
}


@dataclass(frozen=True)
class Mutant:
    """file: relative to its `root`. line: its number, counted from 1. before, after: that line."""

    file: str
    line: int
    before: str
    after: str

    @property
    def place(self) -> str:
        """File, text, and number among equal lines of the file: stable when other lines change."""
        lines = [line.strip() for line in (root(self.file) / self.file).read_text().splitlines()[: self.line]]
        count = lines.count(self.before.strip())
        return f"{self.file}: {self.before.strip()} -> {self.after.strip()} ({count})"

    @property
    def is_barrier(self) -> bool:
        return "__sync" in self.before and self.before.count("__sync") > self.after.count("__sync")


def root(name: str) -> Path:
    """The folder that the name of a file or folder with kernels is relative to."""
    return BASELINES if name.startswith("baselines/") else SOURCES


def files(source: Source) -> list[Path]:
    """The files that a variant is compiled from, those of a baseline included."""
    own = files_of_baseline(source.path) if root(source.path) == BASELINES else []
    return [*own, *files_of(source)]


def mutants(folder: str) -> Iterator[Mutant]:
    """Every mutant of the sources in a folder of kernels."""
    paths = sorted(p for p in (root(folder) / folder).iterdir() if p.suffix in (".cu", ".cuh"))
    for path in paths:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for after in _changed(line):
                yield Mutant(str(path.relative_to(root(folder))), number, line, after)


def arithmetic(form: str) -> Iterator[Mutant]:
    """Every mutant of `ARITHMETIC` for a form."""
    file = _RESIDUAL if form == "ADD" else _REQUANTIZE
    lines = (SOURCES / file).read_text().splitlines()
    for right, wrong in ARITHMETIC[form]:
        ((number, line),) = [(number, line) for number, line in enumerate(lines, 1) if right in line]
        yield Mutant(file, number, line, line.replace(right, wrong))


def _changed(line: str) -> Iterator[str]:
    for match in _BARRIER.finditer(line):
        yield f"{line[: match.start()]};{line[match.end() :]}"
    if _LOOP.search(line):
        return
    for match in _BOUND.finditer(line):
        is_zero = match[3].strip() == "0" and "::" not in match[1]  # a lower bound: `index >= 0` lets pass
        if _is_index(match[1]) and (is_zero or _is_limit(match[3])):
            verdict = "true" if (match[2] == "<") != is_zero else "false"
            rest = line[match.end() :]
            yield f"{line[: match.start()]}{verdict}{' ' if rest.startswith(('&', '|', '?')) else ''}{rest}"


def _is_index(text: str) -> bool:
    """Whether an operand is known at run time only: it contains a variable, which is lower case."""
    return re.search(r"\b[a-z_]\w*\b(?!::)", re.sub(r"\(int\)|\(unsigned\)|\b\w+::\w+", "", text)) is not None


def _is_limit(text: str) -> bool:
    return re.search(r"\b[A-Z][A-Z0-9_]+\b|\b[A-Z]::(?!lo\b)", text) is not None


class MutatedModules:
    """Modules of a mode; those that include the mutated file are compiled from the mutant, others are cached."""

    def __init__(self, mutant: Mutant, folder: Path, mode: str = "checked") -> None:
        self._file, self._folder = root(mutant.file) / mutant.file, folder
        self._compiler = EmulationCompiler(mode, _copy(mutant, folder))
        self._others = cached(mode)

    def get(self, source: Source, architecture: Architecture) -> bytes:
        if self._file in files(source):
            if root(source.path) == BASELINES:
                source = baseline_source(source.path, source.entry, source.defines, self._folder)
            return self._compiler.compile(source, architecture)
        return self._others.get(source, architecture)


def _copy(mutant: Mutant, folder: Path) -> Path:
    """All sources, with one line changed."""
    for path in [*SOURCES.rglob("*.cu*"), *BASELINES.rglob("*.cu*")]:
        copy = folder / path.relative_to(BASELINES if path.is_relative_to(BASELINES) else SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        lines = path.read_text().splitlines()
        if copy == folder / mutant.file:
            assert lines[mutant.line - 1] == mutant.before
            lines[mutant.line - 1] = mutant.after
        copy.write_text("\n".join(lines) + "\n")
    return folder
