"""Registers of an accelerator (rtl/accelerator.sv), and the writes that put another network into its memories."""

from collections.abc import Iterator

from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.generate.verilog import memory_numbers

IDENTITY, VERSION, CONTROL, ERRORS = 0x00, 0x04, 0x08, 0x0C
IMAGES_READ, IMAGES_WRITTEN, CYCLES, CYCLES_HIGH = 0x10, 0x14, 0x18, 0x1C
IN_WORDS, OUT_WORDS, INTERRUPT, DIGEST = 0x20, 0x24, 0x28, 0x40
LOAD_DATA, LOAD_COMMIT = 0x60, 0x64

EDGM = 0x4D474445
"""What IDENTITY holds."""


def load_writes(netlist: Network, other: Network) -> Iterator[tuple[int, int]]:
    """Writes (address, value) that make the netlist of one network run another of the same parameters.

    The device must be idle; a reset through CONTROL comes after. Raises FpgaError, before the first write, where
    networks differ in more than the contents of memories.
    """
    _check_same(netlist, other)
    return _writes(other)


def _writes(network: Network) -> Iterator[tuple[int, int]]:
    numbers = memory_numbers(network)
    for engine in network.engines:
        for memory in engine.memories:
            number = numbers[engine.name, memory.suffix]
            parts = -(-memory.width // 32)
            for row, word in enumerate(memory.words):
                for part in reversed(range(parts)):
                    yield LOAD_DATA, word >> 32 * part & 0xFFFFFFFF
                yield LOAD_COMMIT, number << 16 | row
    digest = bytes.fromhex(network.model.digest or "00" * 32)
    for part in range(8):
        yield DIGEST + 4 * part, int.from_bytes(digest[4 * part : 4 * part + 4], "little")


def _check_same(netlist: Network, other: Network) -> None:
    if [engine.module for engine in netlist.engines] != [engine.module for engine in other.engines]:
        raise FpgaError("the netlist has other layers than the model")
    for mine, theirs in zip(netlist.engines, other.engines, strict=True):
        for key, value in mine.parameters.items():
            if theirs.parameters[key] != value:
                raise FpgaError(
                    f"layer {theirs.name!r} needs {key} {theirs.parameters[key]}, the netlist has {value}: "
                    "it must be synthesized anew"
                )
        if mine.parameters.get("WEIGHT_STYLE") == "logic":
            raise FpgaError(f"the weights of layer {mine.name!r} are logic: it must be synthesized anew")
    if netlist.fifos != other.fifos and list(netlist.fifos.values()) != list(other.fifos.values()):
        raise FpgaError("the netlist has other residual FIFOs than the model needs")
