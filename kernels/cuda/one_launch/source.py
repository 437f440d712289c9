"""The text of a kernel that computes a whole network: the kernels' own files, each in a namespace with its definitions.

The device code of a layer is the function `compute` of its kernel.cu, which the kernel of that layer alone calls, too.
A block computes blocks of the layers of a phase one after the other, then waits for all others (barrier.cuh,
cluster.cuh).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from edgemeta.kernels.cuda.one_launch.ahead import Ahead
from edgemeta.kernels.cuda.plan.launch_plan import Argument, Buffer, Counter, Launch, Source

ENTRY = "network"
PATH = "one_launch/network.cu"
"""There is no such file: the name is for reports and errors."""

BODIES = frozenset(
    {
        "direct/kernel.cu",
        "popc/kernel.cu",
        "winograd/kernel.cu",
        "tensor/kernel.cu",
        "pool_dense/kernel.cu",
        "preprocess/kernel.cu",
    }
)
"""Kernels with a function `compute(block, shared memory, arguments of the kernel)`."""

_SHARED = ("one_launch/blocks.cuh", "include/requantize.cuh", "include/tensor.cuh", "tensor/mma.cuh")
"""Headers that all layers share: included once, before the namespace of each layer."""


@dataclass(frozen=True)
class Barrier:
    """How all blocks wait for each other: a header with `wait_for_all_blocks` of these arguments.

    attribute: of a kernel whose blocks wait so.
    """

    header: str
    arguments: tuple[Counter, ...] = ()
    attribute: str = ""


WORD = Barrier("one_launch/barrier.cuh", arguments=(Counter("barrier"),))
CLUSTER = Barrier("one_launch/cluster.cuh", attribute="__cluster_dims__(NETWORK_BLOCKS, 1, 1) ")


@dataclass(frozen=True)
class Shape:
    """Threads of a block, blocks of the launch, and blocks of a multiprocessor for which registers must suffice."""

    threads: int
    blocks: int
    per_multiprocessor: int
    barrier: Barrier
    ahead: Ahead


def source_of(
    phases: Sequence[Sequence[Launch]], shape: Shape, network_input: Buffer
) -> tuple[Source, tuple[Argument, ...]]:
    """The kernel, and its pointers in the order of its parameters, which the number of images follows."""
    launches = [launch for phase in phases for launch in phase]
    arguments = tuple(dict.fromkeys(argument for launch in launches for argument in launch.arguments))
    names = {each: f"{'tensor' if isinstance(each, Buffer) else 'constant'}{n}" for n, each in enumerate(arguments)}
    numbers = {launch: n for n, launch in enumerate(launches)}
    counters = {each: f"counter{n}" for n, each in enumerate(shape.barrier.arguments)}
    parameters = [
        *(_parameter(each, name, network_input) for each, name in names.items()),
        *(f"unsigned* {name}" for name in counters.values()),
        "int images",
    ]
    wait = f"  wait_for_all_blocks({', '.join(counters.values())});"
    lines = [
        f"#define NETWORK_THREADS {shape.threads}",
        f"#define NETWORK_BLOCKS {shape.blocks}",
        *(f'#include "{name}"' for name in (shape.barrier.header, *_SHARED)),
        *(line for launch in launches for line in _namespace(launch, numbers[launch])),
        "",
        f'extern "C" __global__ void {shape.barrier.attribute}'
        f"__launch_bounds__(NETWORK_THREADS, {shape.per_multiprocessor})",
        f"    {ENTRY}({', '.join(parameters)}) {{",
        "  DYNAMIC_SHARED(int4, shared);",
        *(line for n in range(len(phases)) for line in _turn(n, phases, shape.ahead, wait, numbers, names)),
        "}",
    ]
    return Source(PATH, ENTRY, (), "\n".join(lines) + "\n"), (*arguments, *shape.barrier.arguments)


def _namespace(launch: Launch, number: int) -> Iterator[str]:
    yield ""
    yield f"namespace layer{number} {{  // {' + '.join(launch.layers)}"
    yield from (f"#define {name} {value}" for name, value in launch.source.defines)
    yield f'#include "{launch.source.path}"'
    yield from (f"#undef {name}" for name, _ in launch.source.defines)
    yield f"}}  // namespace layer{number}"


def _parameter(argument: Argument, name: str, network_input: Buffer) -> str:
    """Memory that the kernel does not write may be read through the cache for constant memory."""
    if isinstance(argument, Buffer) and argument is not network_input:
        return f"unsigned char* {name}"
    return f"const unsigned char* __restrict__ {name}"


def _turn(
    n: int,
    phases: Sequence[Sequence[Launch]],
    ahead: Ahead,
    wait: str,
    numbers: Mapping[Launch, int],
    names: Mapping[Argument, str],
) -> Iterator[str]:
    """A phase: constants that it reads are copied in the blocks that compute it, before all blocks wait."""
    here = dict(names)
    copy = ahead.copies.get(n)
    if copy is not None:
        yield f"  if (blockIdx.x < {_total(phases[n])} * images) {{"
        for each, unit in copy.places.items():
            yield f"    copy_ahead<{copy.first}, {each.data.nbytes}>(shared + {unit}, {names[each]});"
            here[each] = f"shared + {unit}"
        yield "  }"
    if n > 0:
        yield wait
    yield from _phase(phases[n], numbers, here)


def _phase(phase: Sequence[Launch], numbers: Mapping[Launch, int], names: Mapping[Argument, str]) -> Iterator[str]:
    """A loop over the blocks of all layers of a phase, for all images."""
    total = _total(phase)
    yield "#pragma unroll 1"
    yield f"  for (int item = blockIdx.x; item < {total} * images; item += NETWORK_BLOCKS) {{"
    yield "    if (item >= NETWORK_BLOCKS) __syncthreads();  // shared memory is used again"
    first = 0
    for launch in phase:
        last = first + _blocks(launch)
        condition = f"if (item < {last} * images) " if last < total else ""
        values = ", ".join(f"Untyped{{{names[argument]}}}" for argument in launch.arguments)
        across, down = launch.grid
        yield f"    {condition}{{"
        block = f"block_of<{across}, {down}>(item - {first} * images)"
        yield f"      layer{numbers[launch]}::compute({block}, shared, {values});"
        yield "    } else" if condition else "    }"
        first = last
    yield "  }"


def _total(phase: Sequence[Launch]) -> int:
    """Blocks of all layers of a phase, for an image."""
    return sum(_blocks(launch) for launch in phase)


def _blocks(launch: Launch) -> int:
    return launch.grid[0] * launch.grid[1]
