"""Constants of a phase that a block copies to its shared memory while the phase before is computed.

After a barrier of all blocks the L1 cache is empty, and few blocks read all weights of a layer: their loads wait for
the L2 cache. Weights do not depend on the phase before. Where its kernels have no barriers of their own and are
narrower than the block, warps without work copy what their block reads next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from edgemeta.kernels.cuda.plan.launch_plan import Constant, Launch

FREE = frozenset({"tensor/kernel.cu"})
"""Kernels that read weights and channels from any memory and have no barriers: threads that take no part go on."""

UNIT = 16
"""Bytes that a thread copies at once."""

_COPIED = (".weights", ".channels")


@dataclass(frozen=True)
class Copy:
    """places: of constants in shared memory, in units. first: of the threads that copy them, in the phase before."""

    places: Mapping[Constant, int]
    first: int


@dataclass(frozen=True)
class Ahead:
    """copies: by the number of the phase that reads them. end: of the shared memory of layers and copies, in bytes."""

    copies: Mapping[int, Copy]
    end: int


def copied_ahead(phases: Sequence[Sequence[Launch]], threads: int, used: int, limit: int) -> Ahead:
    """What fits of each phase's constants. threads: of a block; used: shared bytes of its layers; limit: of a block.

    Phases take turns with two places: one is read while the other is written.
    """
    start = -(-used // UNIT)
    room = (limit // UNIT - start) // 2
    found = {n: _constants(phases[n - 1], phases[n], threads) for n in range(1, len(phases))}
    chosen = {n: each for n, each in found.items() if each and sum(map(_units, each)) <= room}
    if not chosen:
        return Ahead({}, used)
    sizes = [max((sum(map(_units, each)) for n, each in chosen.items() if n % 2 == turn), default=0) for turn in (0, 1)]
    copies = {n: Copy(_placed(each, start + n % 2 * sizes[0]), _width(phases[n - 1])) for n, each in chosen.items()}
    return Ahead(copies, (start + sum(sizes)) * UNIT)


def _constants(before: Sequence[Launch], phase: Sequence[Launch], threads: int) -> list[Constant]:
    """Of the kernels that read them from any memory, if warps of the block have nothing to do in the phase before."""
    if _width(before) >= threads or any(launch.source.path not in FREE for launch in before):
        return []
    arguments = dict.fromkeys(each for launch in phase if launch.source.path in FREE for each in launch.arguments)
    return [each for each in arguments if isinstance(each, Constant) and each.name.endswith(_COPIED)]


def _width(phase: Sequence[Launch]) -> int:
    """Threads of the widest launch."""
    return max(prod(launch.block) for launch in phase)


def _units(constant: Constant) -> int:
    return -(-constant.data.nbytes // UNIT)


def _placed(constants: Sequence[Constant], start: int) -> dict[Constant, int]:
    places = {}
    for each in constants:
        places[each], start = start, start + _units(each)
    return places
