"""Descriptions of devices for predicting times: clocks, bandwidths and the cost of launches, with their sources."""

from collections.abc import Sequence
from dataclasses import dataclass

from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta_proof.machine_code.timing.caches import Bandwidth
from edgemeta_proof.machine_code.timing.generations import AMPERE, HOPPER, MAXWELL, Generation
from edgemeta_proof.machine_code.timing.launch import LaunchTimer

# Alan Gray, "Getting started with CUDA graphs" (NVIDIA's developer blog, 2019), on a V100 of 1,380 MHz: a kernel of
# 2.9 us takes 3.8 us in a queue of launches and 3.4 us in a graph.
_QUEUE_US, _GRAPH_US, _V100_MHZ = 3.8 - 2.9, 3.4 - 2.9, 1380.0


@dataclass(frozen=True)
class DeviceDescription:
    """Properties of a device that a prediction in microseconds needs in addition to the architecture.

    clock_mhz: of the GPU. bytes_per_us: memory bandwidth. l2_bytes: size of the L2 cache; l2_port: bytes per clock that
    a multiprocessor gets from it. launch_us: of the host's processor, for each launch.
    """

    name: str
    source: str
    generation: Generation
    clock_mhz: float
    bytes_per_us: float
    l2_bytes: int
    l2_port: float
    launch_us: float

    @property
    def gap_us(self) -> float:
        """Microseconds between two launches that wait in a queue."""
        return _QUEUE_US * _V100_MHZ / self.clock_mhz

    @property
    def node_us(self) -> float:
        """Microseconds between two kernels of a CUDA graph."""
        return _GRAPH_US * _V100_MHZ / self.clock_mhz

    def timer(self, plan: LaunchPlan) -> LaunchTimer:
        """A timer for the launches of a plan; images follow each other, so a plan that fits stays in the L2 cache."""
        held = sum(each.image_bytes for each in plan.buffers) + sum(each.data.nbytes for each in plan.constants)
        share = self.bytes_per_us / self.clock_mhz / plan.architecture.multiprocessors
        bandwidth = Bandwidth(self.l2_port, share, warm=held <= self.l2_bytes)
        return LaunchTimer(plan.architecture, self.generation, bandwidth, plan.input)

    def plain_us(self, busy: Sequence[float]) -> float:
        """Microseconds of an image if the host launches the kernels one by one, without waiting in between.

        A kernel begins when the host has launched it, and when the one before has ended and the gap is over.
        """
        end = 0.0
        for number, time in enumerate(busy):
            end = max((number + 1) * self.launch_us, end + self.gap_us if number else 0.0) + time
        return end

    def graph_us(self, busy: Sequence[float]) -> float:
        """Microseconds of an image if the kernels are one CUDA graph, as in the backend: one launch."""
        return self.launch_us + sum(busy) + (len(busy) - 1) * self.node_us

    def assumptions(self) -> tuple[str, ...]:
        """Assumptions of the prediction, as sentences, each with its source or marked as a guess."""
        return (
            f"{self.name}: {self.clock_mhz} MHz, memory of {self.bytes_per_us / 1000} GB/s ({self.source}).",
            "Simulated: issue, stalls and scoreboards as the machine code's control information says, with the rates, "
            "latencies and caches of machine_code/timing/generations.py, where each has its source.",
            "Not modelled: the instruction cache, register banks. Data that fits stays in the L2 cache.",
            f"Guess: {self.launch_us} us of the host for every launch. From kernel to kernel {self.gap_us:.1f} us in a "
            f"queue, {self.node_us:.1f} us in a CUDA graph (Gray 2019, V100, scaled by the clock). Busy time includes "
            "neither.",
        )


DEVICES = {
    "sm_53": DeviceDescription(
        name="Jetson Nano",
        source="data sheet of the module",
        generation=MAXWELL,
        clock_mhz=921.6,
        bytes_per_us=25_600.0,
        l2_bytes=256 << 10,  # technical reference manual of the Tegra X1
        l2_port=32.0,  # guess: a sector per clock
        launch_us=15.0,  # guess: not measured; 5 to 20 us are reported for such boards
    ),
    "sm_62": DeviceDescription(
        name="Jetson TX2",
        source="data sheet of the module",
        generation=MAXWELL,  # Pascal's control information and rates are those of Maxwell (guide, 6.2 as 5.3)
        clock_mhz=1300.5,
        bytes_per_us=59_700.0,
        l2_bytes=512 << 10,
        l2_port=32.0,  # guess: a sector per clock
        launch_us=15.0,  # guess
    ),
    "sm_87": DeviceDescription(
        name="Jetson AGX Orin",
        source="data sheet of the module, 64 GB",
        generation=AMPERE,
        clock_mhz=1300.5,
        bytes_per_us=204_800.0,
        l2_bytes=4 << 20,
        l2_port=47.0,  # as on the A100: 5,120 bytes per clock for 108 multiprocessors (whitepaper)
        launch_us=6.0,  # guess
    ),
    "sm_90": DeviceDescription(
        name="H200",
        source="data sheet, boost clock",
        generation=HOPPER,
        clock_mhz=1980.0,
        bytes_per_us=4_800_000.0,
        l2_bytes=50 << 20,
        l2_port=38.8,  # as on the A100: 5,120 bytes per clock (whitepaper), for 132 multiprocessors
        launch_us=3.0,  # guess
    ),
}
"""Device descriptions by architecture."""
