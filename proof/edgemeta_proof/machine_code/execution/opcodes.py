"""The instructions that can be executed, by opcode."""

from collections.abc import Callable

from edgemeta_proof.machine_code.execution import additions, atomics, bits, comparisons, floating, tensor, transfers
from edgemeta_proof.machine_code.execution.wave import Step, Wave
from edgemeta_proof.machine_code.execution.words import Mask, refuse
from edgemeta_proof.machine_code.sass import Instruction


def _lanes_apart(i: Instruction) -> Step:
    """What the compiler adds for lanes that are apart where a warp exchanges values. Our kernels never get there."""

    def step(_wave: Wave, _mask: Mask) -> None:
        raise refuse(i, "lanes of a warp that are apart are not modelled")

    return step


OPCODES: dict[str, Callable[[Instruction], Step]] = {
    "IADD": additions.add, "IADD32I": additions.add, "XMAD": additions.xmad, "IMAD": additions.multiply_add,
    "UIMAD": additions.multiply_add, "UIADD3": additions.add3, "ISCADD": additions.scaled_add,
    "ISCADD32I": additions.scaled_add, "LEA": additions.scaled_add, "ULEA": additions.scaled_add,
    "IMNMX": additions.minimum, "VIMNMX": additions.minimum, "UIMNMX": additions.minimum, "IDP": additions.dot4,
    "IABS": additions.absolute, "VIADD": additions.add,
    "VIADDMNMX": additions.minimum_of_sum, "VIMNMX3": additions.minimum_of_three,
    "MOV": bits.move, "MOV32I": bits.move, "UMOV": bits.move, "ULDC": bits.move, "R2UR": bits.move, "CS2R": bits.zero,
    "S2R": bits.special, "S2UR": bits.special, "LOP": bits.logic, "LOP32I": bits.logic, "LOP3": bits.logic3,
    "ULOP3": bits.logic3, "SHL": bits.shift, "SHR": bits.shift, "SHF": bits.funnel, "USHF": bits.funnel,
    "BFE": bits.field, "BFI": bits.insert, "PRMT": bits.permute, "UPRMT": bits.permute, "SEL": bits.select,
    "USEL": bits.select, "ICMP": bits.compared_select, "I2I": bits.convert_integer, "HFMA2": bits.half_constant,
    "VMNMX": bits.limits, "SGXT": bits.extend, "POPC": bits.count,
    "ISETP": comparisons.compare, "UISETP": comparisons.compare, "ISET": comparisons.compare_to_word,
    "FSETP": comparisons.compare_floats,
    "PSETP": comparisons.join_predicates, "PSET": comparisons.predicate_word, "PLOP3": comparisons.look_up_predicates,
    "UPLOP3": comparisons.look_up_predicates, "P2R": comparisons.to_register, "R2P": comparisons.from_register,
    "FFMA": floating.fused, "FADD": floating.add, "FMUL": floating.multiply, "FMNMX": floating.minimum,
    "I2F": floating.from_integer, "I2FP": floating.from_integer,
    "LDG": transfers.load, "LDS": transfers.load, "STG": transfers.store, "STS": transfers.store,
    "LDC": transfers.load_constant, "SHFL": transfers.shuffle, "IMMA": tensor.matrix_multiply,
    "ATOM": atomics.add, "ATOMG": atomics.add, "LDL": transfers.load_local, "STL": transfers.store_local,
    "RET": _lanes_apart, "ENDCOLLECTIVE": _lanes_apart,
}  # fmt: skip

WITHOUT_EFFECT = frozenset({"NOP", "DEPBAR", "MEMBAR", "YIELD", "ERRBAR", "CCTL", "CGAERRBAR"})
"""Scheduling, and the order of memory accesses, which are executed in order here."""


def step_of(instruction: Instruction, is_before_volta: bool) -> Step:
    """The function that executes an instruction. Raises ExecutionError, naming one that is not modelled."""
    if instruction.base == "IADD3":
        return additions.add(additions.with_signs(instruction)) if is_before_volta else additions.add3(instruction)
    if instruction.base not in OPCODES:
        raise refuse(instruction, f"the opcode {instruction.base} is not modelled")
    return OPCODES[instruction.base](instruction)
