"""Descriptions of devices for predicting times from counted instructions: assumptions and their sources."""

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
    """Properties of a device that a prediction in microseconds needs in addition to the architecture.

    clock_mhz: of the GPU. bytes_per_us: memory bandwidth. launch_us: overhead of each launch by the host. node_us: from
    one kernel of a CUDA graph to the next; the graph itself is one launch.
    """

    name: str
    clock_mhz: float
    bytes_per_us: float
    launch_us: float
    node_us: float

    def busy_us(self, work: Work, run: ExecutionCounts, footprint: int, architecture: Architecture) -> float:
        """Microseconds of a launch without launch overhead: the maximum over all limits."""
        clocks = max(busy_clocks(work, architecture), unit_clocks(run) / architecture.multiprocessors)
        return max(clocks / self.clock_mhz, footprint / self.bytes_per_us)

    def plain_us(self, busy: float, launches: int) -> float:
        """Microseconds of an image if the host launches the kernels one by one."""
        return busy + launches * self.launch_us

    def graph_us(self, busy: float, launches: int) -> float:
        """Microseconds of an image if the kernels are one CUDA graph, as in the backend."""
        return busy + self.launch_us + (launches - 1) * self.node_us

    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the prediction, as sentences, each with its source or marked as a guess."""
        return (
            f"{self.name}: one multiprocessor at {self.clock_mhz} MHz, memory of {self.bytes_per_us / 1000} GB/s "
            "(data sheet of the module).",
            f"Per clock {SCHEDULERS} warps of additions, logic and XMAD, 2 of shifts, comparisons and selection of "
            "bits or bytes, 1 of conversions, 1 of loads, stores and shuffles (CUDA C++ programming guide, "
            "compute capability 5.3).",
            f"Guess: a busy kernel issues {EFFICIENCY:.0%} of them, a lone warp one instruction every {LONE_CLOCKS} "
            "clocks.",
            "Blocks that are not resident at once run in a later round. Not modelled: cache misses, bank conflicts.",
            f"Guess: {self.launch_us} us for every launch by the host, {self.node_us} us from kernel to kernel of a "
            "CUDA graph. Busy time includes neither.",
        )


def unit_clocks(run: ExecutionCounts) -> float:
    """Clocks of the unit with the most work."""
    half = sum(count for opcode, count in run.issued.items() if opcode in _HALF_RATE)
    quarter = sum(count for opcode, count in run.issued.items() if opcode in _QUARTER_RATE)
    memory = sum(count for opcode, count in run.issued.items() if opcode in _MEMORY)
    return max(half / 2, quarter, memory)


DEVICES = {
    "sm_53": DeviceDescription(
        name="Jetson Nano",
        clock_mhz=921.6,  # Jetson Nano module data sheet: Maxwell GPU, 128 cores, at most 921 MHz
        bytes_per_us=25_600.0,  # the same: 64-bit LPDDR4, 25.6 GB/s
        launch_us=15.0,  # guess: not measured; 5 to 20 us are reported for such boards
        node_us=2.5,  # guess: 1.3 us are reported for graphs on an H100, scaled by the clocks (1.3 * 1755 / 921.6)
    )
}
"""Device descriptions by architecture."""
