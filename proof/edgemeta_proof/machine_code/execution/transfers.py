"""Loads and stores of global and shared memory, and shuffles."""

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.operands import group, numbers, operand, predicate_target, target, word
from edgemeta_proof.machine_code.execution.wave import RZ, URZ, Step, Wave
from edgemeta_proof.machine_code.execution.words import (
    WARP,
    ExecutionError,
    Mask,
    Wide,
    Words,
    check_modifiers,
    pair,
    refuse,
    signed,
    uniform,
)
from edgemeta_proof.machine_code.sass import Instruction

_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "32": 4, "64": 8, "128": 16}
_HINTS = ("E", "CI", "CV", "CONSTANT", "U", "SYS", "CONSTANT", "STRONG", "GPU", "EF", "LU", "EL", "NA")
_READ_ONLY = frozenset({"CI", "CONSTANT"})
_PART = re.compile(r"(U?R)(\d+|Z)((?:\.[A-Z0-9]+)*)$")
_SCALES = {"": 1, ".X4": 4, ".X8": 8, ".X16": 16}


def _width(i: Instruction) -> tuple[int, bool]:
    """Bytes of an access, and whether fewer than four are extended with their sign."""
    check_modifiers(i, *_WIDTHS, *_HINTS)
    found = [each for each in i.modifiers if each in _WIDTHS]
    return (_WIDTHS[found[0]], found[0].startswith("S")) if found else (4, False)


def global_address(i: Instruction, index: int) -> Callable[[Wave], Wide]:
    """[R], [R.64 + UR + offset], desc[UR][R.64]: the pair of registers, plus the others."""
    parts, offset = _address_parts(i, index)
    if not parts or parts[0][1] not in ("", ".64") or "E" not in i.modifiers:
        raise refuse(i, f"the address {i.operands[index]} is not modelled")
    lower, upper = numbers(parts[0][0], 2)
    if len(parts) > 1:
        raise refuse(i, f"the address {i.operands[index]} is not modelled")
    return lambda wave: pair(wave.registers[lower], wave.registers[upper]) + offset


def _shared_address(i: Instruction, index: int) -> Callable[[Wave], Wide]:
    """[R.X4 + UR + offset], 32 bits."""
    parts, offset = _address_parts(i, index)
    if any(suffix not in _SCALES for _, suffix in parts):
        raise refuse(i, f"the address {i.operands[index]} is not modelled")

    def read(wave: Wave) -> Wide:
        total = uniform(offset)
        for number, suffix in parts:
            total = total + wave.registers[number] * np.int32(_SCALES[suffix])
        return signed(total)

    return read


def _address_parts(i: Instruction, index: int) -> tuple[list[tuple[int, str]], int]:
    """Registers with their suffixes, and the constant offset."""
    text = re.sub(r"^desc\[UR\d+\]", "", i.operands[index])
    if not (text.startswith("[") and text.endswith("]")):
        raise refuse(i, f"the address {text} is not modelled")
    parts, offset = [], 0
    for part in text[1:-1].split("+"):
        found = _PART.match(part)
        if found:
            number = (URZ if found[1] == "UR" else RZ) if found[2] == "Z" else int(found[2]) + 256 * (found[1] == "UR")
            parts.append((number, found[3]))
        elif re.fullmatch(r"-?0x[0-9a-f]+", part):
            offset += int(part, 16)
        else:
            raise refuse(i, f"the address {text} is not modelled")
    return parts, offset


def load(i: Instruction) -> Step:
    """LDG, LDS: 1 to 16 bytes; fewer than four are extended."""
    width, is_signed = _width(i)
    is_shared = i.base == "LDS"
    address = (_shared_address if is_shared else global_address)(i, 1)
    targets = numbers(target(i), -(-width // 4))
    is_cached = bool(_READ_ONLY & set(i.modifiers))

    def step(wave: Wave, mask: Mask) -> None:
        lanes = np.flatnonzero(wave.running(mask))
        if len(lanes) == 0:
            return
        where = np.broadcast_to(address(wave), (wave.lanes,))[lanes]
        if wave.observer is not None:
            wave.observer.access(i.address, lanes, where, width, is_shared)
        try:
            if is_shared:
                values = wave.shared.load(wave.block[lanes], wave.warp[lanes], where, width)
            else:
                values = wave.memory.load(where, width, is_cached)
        except ExecutionError as error:
            raise refuse(i, str(error)) from None
        for number, words in zip(targets, _as_words(values, is_signed), strict=True):
            spread = np.zeros(wave.lanes, np.int32)
            spread[lanes] = words
            wave.set(number, spread, mask)

    return step


def _as_words(values: NDArray[np.uint8], is_signed: bool) -> Words:
    width = values.shape[1]
    if width >= 4:
        return np.ascontiguousarray(values.view(np.int32).T)
    kinds = {(1, False): np.uint8, (1, True): np.int8, (2, False): np.uint16, (2, True): np.int16}
    return values.view(kinds[width, is_signed]).T.astype(np.int32)


def store(i: Instruction) -> Step:
    """STG, STS: 1 to 16 bytes."""
    width, _ = _width(i)
    is_shared = i.base == "STS"
    address = (_shared_address if is_shared else global_address)(i, 0)
    sources = group(i, 1, -(-width // 4))

    def step(wave: Wave, mask: Mask) -> None:
        lanes = np.flatnonzero(wave.running(mask))
        if len(lanes) == 0:
            return
        where = np.broadcast_to(address(wave), (wave.lanes,))[lanes]
        if wave.observer is not None:
            wave.observer.access(i.address, lanes, where, width, is_shared)
        words = np.stack([wave.spread(source(wave))[lanes] for source in sources], axis=1)
        values = np.ascontiguousarray(words.view(np.uint8)[:, :width])
        try:
            if is_shared:
                wave.shared.store(wave.block[lanes], wave.warp[lanes], where, values)
            else:
                wave.memory.store(where, values)
        except ExecutionError as error:
            raise refuse(i, str(error)) from None

    return step


def load_local(i: Instruction) -> Step:
    """LDL: memory of the thread itself, which holds registers that are spilled; all lanes at the same address."""
    count, address, to = _local(i, 1)
    targets = numbers(to, count)

    def step(wave: Wave, mask: Mask) -> None:
        place = _same_address(i, wave, mask, address)
        for n, number in enumerate(targets if wave.running(mask).any() else ()):
            if place + 4 * n not in wave.local:
                raise refuse(i, "a thread reads local memory that it has not written")
            wave.set(number, wave.local[place + 4 * n], mask)

    return step


def store_local(i: Instruction) -> Step:
    """STL: as `load_local`."""
    count, address, _ = _local(i, 0)
    sources = group(i, 1, count)

    def step(wave: Wave, mask: Mask) -> None:
        place = _same_address(i, wave, mask, address)
        for n, source in enumerate(sources if wave.running(mask).any() else ()):
            words = wave.spread(source(wave))
            old = wave.local.get(place + 4 * n, words)
            wave.local[place + 4 * n] = words if mask is None else np.where(mask, words, old)

    return step


def _local(i: Instruction, index: int) -> tuple[int, Callable[[Wave], Wide], int]:
    """Words of an access to local memory, its address, and the register that a load writes."""
    modifiers = check_modifiers(i, "64", "128", "LU") - {"LU"}
    count = next((int(each) // 32 for each in modifiers), 1)
    return count, _shared_address(i, index), target(i) if index else RZ


def _same_address(i: Instruction, wave: Wave, mask: Mask, address: Callable[[Wave], Wide]) -> int:
    """The address that all running lanes have; 0 if no lane runs."""
    found = np.unique(np.broadcast_to(address(wave), (wave.lanes,))[wave.running(mask)])
    if len(found) > 1:
        raise refuse(i, "local memory at different addresses is not modelled")
    return int(found[0]) if len(found) else 0


def load_constant(i: Instruction) -> Step:
    """LDC with a constant address."""
    modifiers = check_modifiers(i, "64")
    found = operand(i, 1)
    if found.bank is None:
        raise refuse(i, f"the operand {i.operands[1]} is not modelled")
    bank, targets = found.bank, numbers(target(i), 2 if "64" in modifiers else 1)

    def step(wave: Wave, mask: Mask) -> None:
        for n, number in enumerate(targets):
            place = bank[0], bank[1] + 4 * n
            if place not in wave.banks:
                raise refuse(i, f"nothing is known of constant {place[1]:#x} in bank {place[0]}")
            wave.set(number, wave.banks[place], mask)

    return step


def shuffle(i: Instruction) -> Step:
    """SHFL.BFLY, .IDX, .UP, .DOWN p, d, a, b, c: a of another lane, as PTX's shfl. That lane must execute it, too.

    c = mask of segments << 8 | clamp. Where the lane is outside the segment p is false and d is the lane's own a.
    """
    if len(i.modifiers) != 1 or i.modifiers[0] not in ("BFLY", "IDX", "UP", "DOWN"):
        raise refuse(i, "its modifiers are not modelled")
    flag, to = predicate_target(i, 0), target(i, 1)
    a, b, c = word(i, 2), word(i, 3), word(i, 4)

    def step(wave: Wave, mask: Mask) -> None:
        lane = np.arange(wave.lanes, dtype=np.int32) % WARP
        b_lane, bounds = b(wave) & 31, c(wave)
        clamp, segment = bounds & 31, bounds >> 8 & 31
        most, least = (lane & segment) | (clamp & ~segment), lane & segment
        if i.modifiers[0] == "UP":
            source = lane - b_lane
            inside = source >= most
        else:
            source = {"DOWN": lane + b_lane, "BFLY": lane ^ b_lane, "IDX": least | (b_lane & ~segment)}[i.modifiers[0]]
            inside = source <= most
        running = wave.running(mask)
        places = np.where(inside, source, lane) + (np.arange(wave.lanes) // WARP * WARP)
        if (running & ~running[places]).any():
            raise refuse(i, "a lane reads the register of a lane that does not execute it")
        wave.set(to, wave.spread(a(wave))[places], mask)
        wave.decide(flag, inside, mask)

    return step
