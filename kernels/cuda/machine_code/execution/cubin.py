"""What a launch needs of a cubin: the code, the constants, the place of the parameters, the size of shared memory."""

import struct
from dataclasses import dataclass

from edgemeta.kernels.cuda.machine_code.execution.words import ExecutionError
from edgemeta.kernels.cuda.machine_code.sass import Code, disassemble, sections

_PARAMETERS = 0x0A  # EIATTR_PARAM_CBANK: symbol, then offset and size of the parameters in bank 0
_WITH_DATA = 0x04


@dataclass(frozen=True)
class Kernel:
    """A kernel of a cubin. parameters: offset and size in bank 0. shared_bytes: of arrays with a fixed size."""

    entry: str
    code: Code
    parameters: tuple[int, int]
    shared_bytes: int
    is_before_volta: bool


def read_kernel(cubin: bytes, entry: str) -> Kernel:
    """Disassemble a kernel. Raises SassError."""
    found = {name: (data, size) for name, data, size in sections(cubin)}
    info, _ = found.get(f".nv.info.{entry}", (b"", 0))
    code = disassemble(cubin, entry)
    _, shared = found.get(f".nv.shared.{entry}", (b"", 0))
    is_old = any(each.address == 8 for each in code.instructions)  # instructions of 8 bytes, later of 16
    return Kernel(entry, code, _parameters(info, entry), shared, is_old)


def _parameters(info: bytes, entry: str) -> tuple[int, int]:
    place = 0
    while place + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, place)
        place += 4
        if form == _WITH_DATA:
            if attribute == _PARAMETERS:
                _, offset, count = struct.unpack_from("<IHH", info, place)
                return offset, count
            place += size
    raise ExecutionError(f"the cubin does not say where the parameters of {entry} are")
