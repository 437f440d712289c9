"""Devices whose time can be predicted from counted instructions: what is assumed, and where it comes from."""

from dataclasses import dataclass

from edgemeta.kernels.cuda.plan import Launch
from edgemeta.kernels.cuda.resources import Resources
from edgemeta.kernels.cuda.sass_run import WARP, Run

_MOST_WARPS, _MOST_BLOCKS = 64, 32

_HALF_RATE = frozenset({"SHL", "SHR", "SHF", "BFE", "BFI", "ISETP", "IMNMX", "ICMP", "PRMT", "LEA", "PSETP", "FMNMX"})
_QUARTER_RATE = frozenset({"I2I", "I2F", "F2I", "F2F", "POPC", "FLO", "MUFU"})
_MEMORY = frozenset({"LDS", "STS", "LDG", "STG", "LD", "ST", "LDC", "SHFL", "ATOM", "ATOMS", "RED"})


@dataclass(frozen=True)
class Device:
    """One multiprocessor, as far as a prediction needs it.

    clock_mhz: of the GPU. schedulers: warp-instructions that can be issued per clock. efficiency: part of them that a
    busy kernel reaches. lone_clocks: between two instructions of a warp that is alone. launch_us: from one kernel to
    the next. bytes_per_us: of memory. shared_bytes, registers: of the multiprocessor, shared by the blocks on it.
    """

    name: str
    clock_mhz: float
    schedulers: int
    efficiency: float
    lone_clocks: float
    launch_us: float
    bytes_per_us: float
    shared_bytes: int
    registers: int

    def busy_us(self, launch: Launch, resources: Resources, run: Run, footprint: int) -> float:
        """Microseconds of a launch without the launch itself: the longest of what it has to wait for."""
        clocks = max(
            run.warp_instructions / (self.schedulers * self.efficiency),
            self._pipes(run),
            self._rounds(launch, resources) * run.longest * self.lone_clocks,
        )
        return max(clocks / self.clock_mhz, footprint / self.bytes_per_us)

    def assumptions(self) -> tuple[str, ...]:
        """What a prediction rests on, in sentences."""
        return (
            f"{self.name}: one multiprocessor at {self.clock_mhz} MHz, {self.schedulers} instructions per clock, "
            f"{self.efficiency:.0%} of which a busy kernel issues.",
            "Per clock 4 warps of additions, logic and XMAD, 2 of shifts, comparisons and selection of bits or bytes, "
            "1 of conversions, 1 of loads, stores and shuffles.",
            f"A lone warp issues every {self.lone_clocks} clocks; blocks that do not fit at once wait for a round.",
            f"{self.launch_us} us from one launch to the next; memory moves {self.bytes_per_us / 1000} GB/s; "
            "otherwise caches hit, and bank conflicts cost nothing.",
        )

    @staticmethod
    def _pipes(run: Run) -> float:
        """Clocks of the busiest unit: lanes per clock of compute capability 5.3, CUDA C++ programming guide."""
        half = sum(count for opcode, count in run.issued.items() if opcode in _HALF_RATE)
        quarter = sum(count for opcode, count in run.issued.items() if opcode in _QUARTER_RATE)
        memory = sum(count for opcode, count in run.issued.items() if opcode in _MEMORY)
        return max(half / 2, quarter, memory)

    def _rounds(self, launch: Launch, resources: Resources) -> int:
        """How often the multiprocessor is filled with blocks."""
        threads = launch.block[0] * launch.block[1] * launch.block[2]
        warps = -(-threads // WARP)
        limits = [
            _MOST_BLOCKS,
            _MOST_WARPS // warps,
            self.registers // (-(-resources.registers // 8) * 8 * WARP * warps),
        ]
        shared = resources.shared_bytes + launch.shared_bytes
        if shared:
            limits.append(self.shared_bytes // shared)
        return -(-launch.grid[0] * launch.grid[1] // max(1, min(limits)))


DEVICES = {
    "sm_53": Device(
        name="Jetson Nano",
        clock_mhz=921.6,
        schedulers=4,
        efficiency=0.75,
        lone_clocks=3.0,
        launch_us=15.0,
        bytes_per_us=25_600.0,
        shared_bytes=64 << 10,
        registers=65_536,
    )
}
"""By architecture; 15 us is the middle of the 10 to 20 us that a launch is said to take there."""
