"""A persistent launch: all of its blocks are executed and simulated, as they wait for each other.

What a block does to wait (one_launch/barrier.cuh) is executed like everything else, with one exception: an execution
polls as often as it takes here, which says nothing about a device. So the polls that see no change are left out of the
traces, and the simulation repeats the poll of a trace until all blocks have arrived, with the clocks of each. The warps
of a cluster do not poll (cluster.cuh): all of them arrive, and go on when the last one has.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import prod

from edgemeta.kernels.cuda.plan.launch_plan import Launch
from edgemeta_proof.machine_code.execution.machine import Program
from edgemeta_proof.machine_code.execution.plan import launch_memory
from edgemeta_proof.machine_code.execution.words import WARP
from edgemeta_proof.machine_code.interpreter import ExecutionCounts
from edgemeta_proof.machine_code.timing.caches import Bandwidth, Caches
from edgemeta_proof.machine_code.timing.gates import NEVER, Gates
from edgemeta_proof.machine_code.timing.generations import Generation
from edgemeta_proof.machine_code.timing.multiprocessor import Multiprocessor, Timed
from edgemeta_proof.machine_code.timing.trace import Block, Recorder

_READS, _WRITES = {"LDG", "LD", "ATOM", "ATOMG"}, {"STG", "ST", "ATOM", "ATOMG"}  # of global memory


@dataclass(frozen=True)
class WholeTrace:
    """All blocks of a persistent launch, and what they executed, each wait for other blocks as if it were over."""

    blocks: list[Block]
    counts: ExecutionCounts


def trace_whole(program: Program, launch: Launch, group: int) -> WholeTrace:
    """Execute a persistent launch for one image. Raises as `trace`."""
    assert launch.input is not None, "the launch is not persistent"
    memory, pointers = launch_memory(launch, launch.input)
    place = {each.address: n for n, each in enumerate(program.instructions)}
    grid = launch.grid_of(1)
    warps = -(-prod(launch.block) // WARP)
    recorder = Recorder(place, prod(grid) * warps, group)
    program.run(grid, launch.block, launch.shared_bytes, memory, pointers, (1,), observer=recorder)
    blocks = [recorder.streams[n * warps : (n + 1) * warps] for n in range(prod(grid))]
    return WholeTrace(blocks, _counts(program, recorder))


def _counts(program: Program, recorder: Recorder) -> ExecutionCounts:
    """What a launch issues, without the loops that it contains."""
    issued: Counter[str] = Counter()
    opcodes = [each.base for each in program.instructions]
    runs = Counter((segment.first, segment.end) for stream in recorder.streams for segment in stream)
    for (first, end), times in runs.items():
        for base in opcodes[first:end]:
            issued[base] += times
    lanes: Counter[str] = Counter()
    read = written = 0
    for base, count, moved in zip(opcodes, recorder.lanes.tolist(), recorder.moved.tolist(), strict=True):
        lanes[base] += count
        read += moved * (base in _READS)
        written += moved * (base in _WRITES)
    longest = max(sum(segment.end - segment.first for segment in stream) for stream in recorder.streams)
    return ExecutionCounts(issued, lanes, longest, len(recorder.streams), read, written, ())


def simulate_whole(
    blocks: Sequence[Block],
    instructions: Sequence[Timed],
    generation: Generation,
    bandwidth: Bandwidth,
    multiprocessors: int,
) -> tuple[float, ...]:
    """Clocks at which the last block arrives at each barrier of all blocks, and at which everything has ended.

    bandwidth: of one multiprocessor. The blocks are dealt to the multiprocessors in turn, and all are resident.
    """
    is_cluster = any(each.kind == "wait" for each in instructions)
    gates = Gates(sum(map(len, blocks)) if is_cluster else len(blocks))
    count = min(multiprocessors, len(blocks))
    resident = -(-len(blocks) // count)
    each = [
        Multiprocessor(instructions, generation, Caches(generation, bandwidth), resident, gates) for _ in range(count)
    ]
    for n, multiprocessor in enumerate(each):
        multiprocessor.begin(blocks[n::count])
    queue = [(0.0, n) for n in range(count)]
    heapify(queue)
    while queue[0][0] != NEVER:  # the one that is furthest behind goes on
        _, n = queue[0]
        passed = gates.passed
        each[n].step()
        heapreplace(queue, (each[n].clock, n))
        if gates.passed != passed:  # warps of others may go on
            queue = [(multiprocessor.clock, n) for n, multiprocessor in enumerate(each)]
            heapify(queue)
    return *gates.opened, max(multiprocessor.result.end for multiprocessor in each)
