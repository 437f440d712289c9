"""Atomic additions to global memory, and the loads with which a thread waits for those of other blocks."""

import numpy as np

from edgemeta_proof.machine_code.execution.operands import target, word
from edgemeta_proof.machine_code.execution.transfers import global_address
from edgemeta_proof.machine_code.execution.wave import Step, Wave
from edgemeta_proof.machine_code.execution.words import ExecutionError, Mask, check_modifiers, refuse
from edgemeta_proof.machine_code.sass import Code, Instruction

_FENCES = ({"GL"}, {"GPU"}, {"SYS"})


def add(i: Instruction) -> Step:
    """ATOM.ADD d, [address], a: d = the word, then the word is word + a; one lane after the other. ATOMG: p, d, ..."""
    if "ADD" not in check_modifiers(i, "E", "ADD", "STRONG", "GPU"):
        raise refuse(i, "only additions are modelled")
    first = i.base == "ATOMG"
    if first and i.operands[0] != "PT":
        raise refuse(i, "a predicate is not modelled")
    to, address, value = target(i, int(first)), global_address(i, 1 + first), word(i, 2 + first)

    def step(wave: Wave, mask: Mask) -> None:
        lanes = np.flatnonzero(wave.running(mask))
        addresses = np.broadcast_to(address(wave), (wave.lanes,))
        values, old = wave.spread(value(wave)), np.zeros(wave.lanes, np.int32)
        for lane in lanes:
            try:
                before = wave.memory.load(addresses[lane : lane + 1], 4).view(np.int32)
                old[lane] = before[0, 0]
                wave.memory.store(addresses[lane : lane + 1], (before + values[lane]).view(np.uint8))
            except ExecutionError as error:
                raise refuse(i, str(error)) from None
        if wave.observer is not None:
            wave.observer.access(i.address, lanes, addresses[lanes], 4, is_shared=False)
        wave.set(to, old, mask)

    return step


def is_poll(i: Instruction) -> bool:
    """Whether an instruction is a volatile load, which is how a thread waits for a word to change."""
    return i.base == "LDG" and ("CV" in i.modifiers or {"STRONG", "SYS"} <= set(i.modifiers))


def has_atomics(code: Code) -> bool:
    """Whether a kernel's blocks may wait for each other."""
    return any(each.base in ("ATOM", "ATOMG") for each in code.instructions)


def check_fences(code: Code) -> None:
    """Raise ExecutionError unless each atomic addition is between two fences for all blocks, each next to a barrier.

    Executing code in order shows no missing fence. The first one publishes what the block's barrier has collected; the
    second one follows the polling, and no thread goes on before the barrier after it.
    """
    instructions = code.instructions
    for index, each in enumerate(instructions):
        if each.base not in ("ATOM", "ATOMG"):
            continue
        before = next((n for n in range(index, 0, -1) if instructions[n].base == "BAR"), index)
        polls = next((n for n in range(index, len(instructions)) if is_poll(instructions[n])), index)
        after = next((n for n in range(polls, len(instructions)) if instructions[n].base == "BAR"), polls)
        for start, end, place in ((before, index, "before"), (polls, after, "after")):
            if not any(is_fence(instructions[n]) for n in range(start, end)):
                raise refuse(each, f"there is no fence for other blocks {place} it")


def is_fence(i: Instruction) -> bool:
    """Whether an instruction orders memory accesses for all blocks."""
    return i.base == "MEMBAR" and any(fence <= set(i.modifiers) for fence in _FENCES)
