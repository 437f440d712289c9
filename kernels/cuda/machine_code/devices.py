"""Devices whose time can be predicted from counted instructions: what is assumed, and where it comes from."""

from dataclasses import dataclass

from edgemeta.kernels.cuda.machine_code.interpreter import ExecutionCounts
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.prediction import EFFICIENCY, LONE_CLOCKS, SCHEDULERS, Work, busy_clocks

# Lanes per clock of compute capability 5.3: CUDA C++ programming guide, table of arithmetic instructions' throughput.
_HALF_RATE = frozenset({"SHL", "SHR", "SHF", "BFE", "BFI", "ISETP", "IMNMX", "ICMP", "PRMT", "LEA", "PSETP", "FMNMX"})
_QUARTER_RATE = frozenset({"I2I", "I2F", "F2I", "F2F", "POPC", "FLO", "MUFU"})
_MEMORY = frozenset({"LDS", "STS", "LDG", "STG", "LD", "ST", "LDC", "SHFL", "ATOM", "ATOMS", "RED"})


@dataclass(frozen=True)
class DeviceDescription:
    """What a prediction in microseconds needs beyond the architecture.

    clock_mhz: of the GPU. bytes_per_us: of memory. launch_us: for every launch that the host asks for. node_us: from
    one kernel of a CUDA graph to the next; the graph itself is one launch.
    """

    name: str
    clock_mhz: float
    bytes_per_us: float
    launch_us: float
    node_us: float

    def busy_us(self, work: Work, run: ExecutionCounts, footprint: int, architecture: Architecture) -> float:
        """Microseconds of a launch without the launch itself: the longest of what it has to wait for."""
        clocks = max(busy_clocks(work, architecture), unit_clocks(run) / architecture.multiprocessors)
        return max(clocks / self.clock_mhz, footprint / self.bytes_per_us)

    def plain_us(self, busy: float, launches: int) -> float:
        """Microseconds of an image whose kernels the host launches one by one."""
        return busy + launches * self.launch_us

    def graph_us(self, busy: float, launches: int) -> float:
        """Microseconds of an image whose kernels are one CUDA graph, as the backend runs them."""
        return busy + self.launch_us + (launches - 1) * self.node_us

    def assumptions(self) -> tuple[str, ...]:
        """What a prediction rests on, in sentences, each with its source or marked as a guess."""
        return (
            f"{self.name}: one multiprocessor at {self.clock_mhz} MHz, memory of {self.bytes_per_us / 1000} GB/s "
            "(data sheet of the module).",
            f"Per clock {SCHEDULERS} warps of additions, logic and XMAD, 2 of shifts, comparisons and selection of "
            "bits or bytes, 1 of conversions, 1 of loads, stores and shuffles (CUDA C++ programming guide, "
            "compute capability 5.3).",
            f"Guess: a busy kernel issues {EFFICIENCY:.0%} of them, a lone warp one instruction every {LONE_CLOCKS} "
            "clocks.",
            "Blocks that do not fit at once wait for a round. Left out: caches that miss, bank conflicts.",
            f"Guess: {self.launch_us} us for every launch by the host, {self.node_us} us from kernel to kernel of a "
            "CUDA graph. Busy time has neither in it.",
        )


def unit_clocks(run: ExecutionCounts) -> float:
    """Clocks of the busiest unit."""
    half = sum(count for opcode, count in run.issued.items() if opcode in _HALF_RATE)
    quarter = sum(count for opcode, count in run.issued.items() if opcode in _QUARTER_RATE)
    memory = sum(count for opcode, count in run.issued.items() if opcode in _MEMORY)
    return max(half / 2, quarter, memory)


DEVICES = {
    "sm_53": DeviceDescription(
        name="Jetson Nano",
        clock_mhz=921.6,  # Jetson Nano module data sheet: Maxwell GPU, 128 cores, at most 921 MHz
        bytes_per_us=25_600.0,  # the same: 64-bit LPDDR4, 25.6 GB/s
        launch_us=15.0,  # guess: nobody measured it there; 5 to 20 us are told of such boards
        node_us=2.5,  # guess: 1.3 us are told of an H100's graphs, scaled by the clocks (1.3 * 1755 / 921.6)
    )
}
"""By architecture."""
