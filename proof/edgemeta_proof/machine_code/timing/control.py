"""Control information of machine instructions: what the compiler tells the scheduler about each of them.

Maxwell and Pascal: a word of 64 bits before every three instructions of 64 bits, 21 bits for each. Volta and later:
bits 105 to 125 of an instruction of 128 bits. Fields, lowest first: stall (4 bits), yield (1, inverted), write barrier
(3), read barrier (3), barriers to wait for (6), operands to keep (4). Barrier 7 is none.

Source: Scott Gray, maxas (wiki, "Control Codes"); Jia et al., "Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking" (2018), chapter 2, for both.
"""

import struct
from dataclasses import dataclass

from edgemeta_proof.machine_code.sass import Code, SassError, sections

_NONE = 7
_GROUP = 32  # bytes of a control word and its three instructions
_VOLTA_BITS = 105 - 64  # of the upper half


@dataclass(frozen=True)
class Control:
    """stall: clocks until the warp's next instruction may issue; 0 on Maxwell and Pascal: in the same clock.

    write_barrier: the scoreboard that is released when the result is there; read_barrier: when the operands have been
    read; None for none. waits: scoreboards that must be released before this instruction issues.
    """

    stall: int
    yields: bool
    write_barrier: int | None
    read_barrier: int | None
    waits: tuple[int, ...]


def controls(cubin: bytes, entry: str, code: Code) -> tuple[Control, ...]:
    """The control information of every instruction of a kernel. Raises SassError without its section."""
    text = next((data for name, data, _ in sections(cubin) if name == f".text.{entry}"), None)
    if text is None:
        raise SassError(f"the cubin has no machine code of {entry}")
    return tuple(_control(text, each.address, is_before_volta(code)) for each in code.instructions)


def is_before_volta(code: Code) -> bool:
    """Instructions of 8 bytes (Maxwell, Pascal), later ones have 16."""
    return any(each.address == 8 for each in code.instructions)


def _control(text: bytes, address: int, old: bool) -> Control:
    if old:
        (word,) = struct.unpack_from("<Q", text, address // _GROUP * _GROUP)
        return decoded(word >> 21 * (address % _GROUP // 8 - 1) & 0x1FFFFF)
    (upper,) = struct.unpack_from("<Q", text, address + 8)
    return decoded(upper >> _VOLTA_BITS & 0x1FFFFF)


def decoded(bits: int) -> Control:
    """The fields of 21 bits."""
    write, read, waits = bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 0x3F
    return Control(
        stall=bits & 0xF,
        yields=not bits >> 4 & 1,
        write_barrier=None if write == _NONE else write,
        read_barrier=None if read == _NONE else read,
        waits=tuple(n for n in range(6) if waits >> n & 1),
    )
