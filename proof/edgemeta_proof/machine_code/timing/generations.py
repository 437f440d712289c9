"""Units, rates and latencies of GPU generations, each with its source or called a guess.

Sources, by the names used below:
  guide: CUDA C++ programming guide, table of throughputs of native arithmetic instructions.
  maxas: Scott Gray, wiki of the assembler maxas (scheduling on Maxwell).
  Jia 2018: Jia, Maggioni, Staiger, Scarpazza, "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking",
    arXiv:1804.06826, with columns for Maxwell (M60) and Pascal (P4).
  Mei 2017: Mei, Chu, "Dissecting GPU memory hierarchy through microbenchmarking", IEEE Transactions on Parallel and
    Distributed Systems 28 (1), pages 72-86, with the GTX 980.
  Luo 2024: Luo et al., "Benchmarking and dissecting the NVIDIA Hopper GPU architecture via microbenchmarking", with the
    A100 and the H100: arXiv:2402.13499.
  Sun 2022: Sun et al., "Dissecting tensor cores via microbenchmarks", with the A100.

The numbers of Jia, Mei, Luo and Sun are cited from memory and have not been compared with the papers' tables: until
then they are assumptions, as the guesses are (docs/kernels.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass

SHARED = frozenset({"LDS", "STS", "ATOMS", "LDSM"})
GLOBAL = frozenset({"LDG", "STG", "LD", "ST", "RED", "ATOM", "ATOMG"})
OTHER_MEMORY = frozenset({"SHFL", "LDC", "S2R", "BAR"})
"""Instructions of the load/store units, besides those of shared and of global memory."""


@dataclass(frozen=True)
class Generation:
    """What a multiprocessor does with an instruction, in clocks.

    dual_issue: a stall of 0 means that the next instruction issues in the same clock. occupied: for how long a warp's
    instruction keeps its scheduler's unit, by opcode; the others 1. result: until the result of an instruction with a
    scoreboard is there, by opcode; the others `latency`. shared: the same for shared memory; again: for each further
    pass over its banks. l1, l2, memory: for a load that hits there; l2 also for an atomic operation and, as a guess,
    for a fence for all blocks once its stores are in the L2 cache. group: lanes that look up one line of the L1 cache
    together; look_ups: per clock. l1_bytes: its size. caches_all: of loads without .CI or .CONSTANT, too. cluster: from
    the last arrival at a cluster's barrier until its warps go on.
    """

    dual_issue: bool
    units: Mapping[str, frozenset[str]]
    occupied: Mapping[str, float]
    result: Mapping[str, int]
    latency: int
    shared: int
    again: int
    l1: int
    l2: int
    memory: int
    group: int
    look_ups: float
    l1_bytes: int
    caches_all: bool
    cluster: int = 0

    def unit(self, opcode: str) -> str:
        """The unit of an opcode without modifiers; "" for the one that keeps up with the scheduler."""
        return next((name for name, opcodes in self.units.items() if opcode in opcodes), "")


_LOAD_STORE = SHARED | GLOBAL | OTHER_MEMORY - {"S2R", "BAR"}

MAXWELL = Generation(
    dual_issue=True,  # maxas
    units={
        # guide, 5.x: 64 lanes per clock of 4 schedulers
        "half": frozenset(
            {"SHL", "SHR", "SHF", "BFE", "BFI", "ISETP", "ISET", "IMNMX", "ICMP", "PRMT", "LEA", "PSETP", "PSET"}
            | {"FMNMX", "FSETP", "FCMP", "P2R", "R2P", "VOTE", "VMNMX"}
        ),
        "quarter": frozenset({"I2I", "I2F", "F2I", "F2F", "POPC", "FLO", "MUFU"}),  # guide, 5.x: 32 lanes per clock
        "load/store": _LOAD_STORE,  # NVIDIA, whitepaper of the GTX 750 Ti: 8 load/store units for each scheduler
    },
    occupied={"half": 2, "quarter": 4, "load/store": 4},
    result={"LDC": 60, "S2R": 25, "SHFL": 23},  # guesses; maxas: at least 20 for S2R; SHFL: as shared memory
    latency=14,  # conversions, MUFU: Jia 2018, 13 to 14 for most on Maxwell
    shared=23,  # Jia 2018, table 3.1, M60
    again=2,  # Mei 2017: 28, 30, 34, 42, 58 and 90 clocks for 1 to 32 passes on the GTX 980
    l1=82,  # Jia 2018, table 3.1, M60
    l2=207,  # Jia 2018, table 3.1, M60
    memory=400,  # guess: about twice the L2 cache's
    # NVIDIA, whitepapers of the GTX 750 Ti and 980: 8 texture units per multiprocessor; as four of them serve a quad,
    # two quads of lanes per clock, 32 bytes of adjacent words. Jia 2018 measured half of that on the M60.
    group=4,
    look_ups=2,
    l1_bytes=24 << 10,  # Jia 2018, table 3.1
    caches_all=False,  # NVIDIA, Maxwell tuning guide, 1.4.2
)

_INTEGER = frozenset(
    {"IADD3", "LOP3", "ISETP", "SHF", "LEA", "PRMT", "IMNMX", "VIMNMX", "SEL", "IABS", "VIADD", "VIADDMNMX", "PLOP3"}
    | {"FMNMX", "FSETP", "FSEL", "I2FP", "I2I", "SGXT", "BMSK", "MOV", "P2R", "R2P", "VOTE"}
)

AMPERE = Generation(
    dual_issue=False,
    units={
        "integer": _INTEGER,  # guide, 8.6: 64 lanes per clock
        "multiply": frozenset({"IMAD", "IDP", "HFMA2"}),  # guide, 8.6: 64 lanes per clock
        "uniform": frozenset({"UIADD3", "ULOP3", "UIMAD", "USHF", "ULEA", "UISETP", "UMOV", "USEL", "UPRMT"}),
        "conversion": frozenset({"I2F", "F2I", "F2F", "POPC", "FLO", "MUFU"}),  # guide, 8.6: 16 lanes per clock
        "tensor": frozenset({"IMMA", "HMMA"}),
        "load/store": _LOAD_STORE,
    },
    # tensor: data sheet of the Jetson AGX Orin 64 GB, 85 TOPS of dense int8 at 1.3 GHz, 16x8x32 products each. Of int4
    # 16x8x64: guess, the rate relative to int8 as in the A100's data sheet, 1,248 and 624 TOPS (cited from memory)
    occupied={"integer": 2, "multiply": 2, "uniform": 2, "conversion": 8, "tensor": 8, "load/store": 4},
    result={"LDC": 60, "S2R": 25, "SHFL": 23, "IMMA": 25, "HMMA": 25},  # IMMA of int8: Sun 2022; others: guesses
    latency=18,  # guess: conversions, MUFU
    shared=29,  # Luo 2024, A100
    again=2,  # guess: as on Maxwell
    l1=38,  # Luo 2024, A100
    l2=262,  # Luo 2024, A100
    memory=466,  # Luo 2024, A100
    group=16,  # guess: 64 bytes per clock for words, as NVIDIA's Kernel Profiling Guide says of the T-stage
    look_ups=1,
    l1_bytes=128 << 10,
    caches_all=True,
)

HOPPER = Generation(
    dual_issue=False,
    units=AMPERE.units,  # guide, 9.0: integers 64, conversions 16 lanes per clock
    # tensor: Luo 2024: mma reaches 62 % of wgmma's rate, which is 1024 products per clock and scheduler
    occupied={**AMPERE.occupied, "tensor": 6.5},
    result={**AMPERE.result, "IMMA": 33, "HMMA": 33},  # Luo 2024
    latency=18,  # guess: conversions, MUFU
    shared=29,  # Luo 2024, H100
    again=2,  # guess: as on Maxwell
    l1=41,  # Luo 2024, H100
    l2=263,  # Luo 2024, H100
    memory=479,  # Luo 2024, H100
    group=16,
    look_ups=1,
    l1_bytes=256 << 10,
    caches_all=True,
    cluster=180,  # guess: as a load from another block's shared memory, 180 clocks (Luo 2024, H800)
)
