"""What a launch needs of a cubin: the code, the constants, the place of the parameters, the size of shared memory."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from edgemeta_proof.machine_code.execution.words import ExecutionError
from edgemeta_proof.machine_code.sass import Code, disassemble, sections

_PARAMETERS = 0x0A  # EIATTR_PARAM_CBANK: symbol, then offset and size of the parameters in bank 0
_CLUSTER = 0x3D  # EIATTR_CTA_PER_CLUSTER: blocks in x, y and z
_WITH_DATA = 0x04


@dataclass(frozen=True)
class Kernel:
    """A kernel of a cubin. parameters: offset and size in bank 0. shared_bytes: of arrays with a fixed size.

    cluster: blocks of a cluster, 1 without clusters.
    """

    entry: str
    code: Code
    parameters: tuple[int, int]
    shared_bytes: int
    is_before_volta: bool
    cluster: int = 1


def read_kernel(cubin: bytes, entry: str) -> Kernel:
    """Disassemble a kernel. Raises SassError."""
    found = {name: (data, size) for name, data, size in sections(cubin)}
    info, _ = found.get(f".nv.info.{entry}", (b"", 0))
    code = disassemble(cubin, entry)
    _, shared = found.get(f".nv.shared.{entry}", (b"", 0))
    is_old = any(each.address == 8 for each in code.instructions)  # instructions of 8 bytes, later of 16
    attributes = dict(_attributes(info))
    if _PARAMETERS not in attributes:
        raise ExecutionError(f"the cubin does not say where the parameters of {entry} are")
    _, offset, count = struct.unpack_from("<IHH", attributes[_PARAMETERS])
    cluster = struct.unpack("<III", attributes[_CLUSTER]) if _CLUSTER in attributes else (1,)
    return Kernel(entry, code, (offset, count), shared, is_old, prod(cluster))


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and data of the attributes that have data."""
    place = 0
    while place + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, place)
        place += 4
        if form == _WITH_DATA:
            yield attribute, info[place : place + size]
            place += size
