"""Tiles of the popcount kernel: the possible ones, and their order by predicted time.

The instructions are those of the kernel's loops. A population count keeps its unit for as long as POPC_SLOTS
multiplications keep theirs: where products take the time, that is counted instead of the instructions.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.prediction import WARP, Phase, Work, busy_clocks

POPC_SLOTS = 4
"""CUDA C++ programming guide, throughput of native arithmetic instructions, results per clock and multiprocessor, cited
from memory: population count 32 on 5.x, 6.1 and 6.2, where 32-bit operations have 128; 16 from 7.x on, where integer
multiplications have 64. A quarter in both cases."""

WORD_BITS = 32
_SHARED_LIMIT = 48 * 1024
"""Shared memory of a launch without special configuration of the driver."""

_MOST_THREADS = 256
_MOST_AT_ONCE = 3
AHEAD = 3
"""Vectors of weights that a thread loads before the windows, so that it waits for both once."""

_MOST_TOGETHER, _UNROLLED = 9, 192
"""Words, and products of words with more than three, that are unrolled at most."""

_MOST_AT_ONCE = 3
AHEAD = 3
"""Vectors of weights that a thread loads before the windows, so that it waits for both once."""

_MOST_TOGETHER, _UNROLLED = 4, 64
"""Words, and population counts, that are unrolled at most; one word always is."""

_REGISTERS_BESIDE_TILE = 40

_KEPT_BYTES, _MISSES = 10 << 10, 4
"""What a block reads again for other taps comes from the L1 cache if it is less than two fifths of Maxwell's, as about
two blocks are resident. Else, as simulations of 14x14x256 show, loading takes three to four times as long."""


@dataclass(frozen=True)
class Rows:
    """width: of the output. bytes: of a row of the input. kernel, stride: in rows. taps: of the kernel."""

    width: int
    bytes: int
    kernel: int
    stride: int
    taps: int

    def read(self, pixels: int) -> int:
        """Bytes that so many outputs in image order read, each once."""
        return (-(-pixels // self.width) * self.stride + self.kernel - self.stride) * self.bytes


@dataclass(frozen=True)
class Geometry:
    """Properties of a layer that determine its tiles.

    pixels, filters: outputs of an image. fours: words of four inputs of an output. run: of them that are loaded at
    once. bits: of the activations. bases: planes of the weights. totals: whether the sum of the activations takes part.
    rows: what the inputs of several outputs are read from.
    """

    pixels: int
    filters: int
    fours: int
    run: int
    bits: int
    bases: int
    totals: bool
    rows: "Rows"

    @property
    def words(self) -> int:
        """Words of 32 inputs of an output."""
        return -(-4 * self.fours // WORD_BITS)


@dataclass(frozen=True)
class Tile:
    """A thread computes pixels x filters outputs; a block has threads_p * threads_c * split threads.

    chunk: words of a window that are in shared memory at once.
    """

    pixels: int
    filters: int
    threads_p: int
    threads_c: int
    split: int
    chunk: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.threads_p * self.threads_c * self.split

    @property
    def block_pixels(self) -> int:
        """Pixels of a block."""
        return self.threads_p * self.pixels

    @property
    def block_filters(self) -> int:
        """Output channels of a block."""
        return self.threads_c * self.filters

    def as_dict(self) -> dict[str, int]:
        """For reports."""
        return asdict(self)


@dataclass(frozen=True)
class Layout:
    """Layout of a thread block's shared memory. Offsets and sizes are in units of 32 bits.

    The bit planes of the windows start at 0, the sums of each window's inputs at totals_at, the weights at weights_at;
    words is the total size.
    """

    totals_at: int
    weights_at: int
    words: int


def layout(geometry: Geometry, tile: Tile) -> Layout:
    """Layout of the shared memory of a block."""
    totals_at = tile.chunk * geometry.bits * tile.block_pixels
    end = totals_at + (tile.chunk * tile.block_pixels if geometry.totals else 0)
    weights_at = -(-end // 4) * 4
    return Layout(totals_at, weights_at, weights_at + geometry.bases * tile.chunk * tile.block_filters)


def passes(geometry: Geometry, tile: Tile) -> int:
    """Number of times that a block fills its shared memory."""
    return -(-geometry.words // tile.chunk)


def blocks(geometry: Geometry, tile: Tile) -> tuple[int, int]:
    """Blocks over the pixels of one image and over its channels."""
    return -(-geometry.pixels // tile.block_pixels), -(-geometry.filters // tile.block_filters)


def window_trips(tile: Tile) -> int:
    """Trip count of the loop that makes the windows."""
    return -(-tile.chunk // (at_once(tile) * tile.threads // tile.block_pixels))


def at_once(tile: Tile) -> int:
    """Words of windows whose inputs a thread loads together."""
    return min(_MOST_AT_ONCE, -(-tile.chunk * tile.block_pixels // tile.threads))


def together(geometry: Geometry, tile: Tile) -> int:
    """Words whose products are unrolled: as many as take the least time, of three an adder makes two."""
    turns, products = tile.chunk // tile.split, tile.pixels * tile.filters * geometry.bits
    possible = [n for n in range(1, _MOST_TOGETHER + 1) if turns % n == 0 and (n <= 3 or n * products <= _UNROLLED)]
    return min(possible, key=lambda count: (_slots(count) / count, -count))


def weight_trips(geometry: Geometry, tile: Tile) -> int:
    """Trip count of the loop that copies weights, without those that are loaded ahead."""
    return max(0, -(-geometry.bases * tile.chunk * tile.block_filters // (4 * tile.threads)) - AHEAD)


def _slots(words: int) -> int:
    """Of the products of an output, a plane and so many words: AND, POPC, addition; of three words two LOP3 more."""
    threes, ones = divmod(words, 3)
    return max(9 * threes + 3 * ones, POPC_SLOTS * (2 * threes + ones))


@lru_cache(maxsize=256)
def tiles(geometry: Geometry, architecture: Architecture) -> tuple[tuple[float, Tile], ...]:
    """Predicted clocks of all tiles that fit, the best first; of equal ones that with the most threads."""
    possible = sorted(
        (busy_clocks(work(geometry, tile), architecture), -tile.threads, index, tile)
        for index, tile in enumerate(_possible(geometry, architecture))
    )
    return tuple((clocks, tile) for clocks, _, _, tile in possible)


def _possible(geometry: Geometry, architecture: Architecture) -> Iterator[Tile]:
    shapes = product((4, 2, 1), (8, 4), (64, 32, 16, 8, 4, 2, 1), (16, 8, 4, 2, 1), (1, 2, 4, 8, 16, 32))
    for pixels, filters, threads_p, threads_c, split in shapes:
        tile = Tile(pixels, filters, threads_p, threads_c, split, 0)
        is_wasteful = (
            (tile.block_pixels > 1 and tile.block_pixels >= 2 * geometry.pixels)
            or (threads_c > 1 and tile.block_filters >= 2 * geometry.filters)
            or (tile.threads > WARP and split > 1 and split >= 2 * geometry.words)
            or tile.threads < tile.block_pixels
        )
        if is_wasteful or tile.threads % WARP or tile.threads > _MOST_THREADS:
            continue
        if tile.threads * _registers(tile) > architecture.registers:
            continue
        chunked = _with_chunk(geometry, tile, architecture)
        if chunked is not None:
            yield chunked


def _with_chunk(geometry: Geometry, tile: Tile, architecture: Architecture) -> Tile | None:
    """The tile with as many words at once as fit, as many in each pass; None if not even one of each split fits."""
    limit = min(architecture.shared_bytes, _SHARED_LIMIT)
    turns = -(-geometry.words // tile.split)
    for rounds in range(1, turns + 1):
        chunk = -(-turns // rounds) * tile.split
        sized = Tile(tile.pixels, tile.filters, tile.threads_p, tile.threads_c, tile.split, chunk)
        if 4 * layout(geometry, sized).words <= limit:
            return sized
    return None


def work(geometry: Geometry, tile: Tile) -> Work:
    """Estimated work for one image, from the kernel's loops."""
    rounds, outputs = passes(geometry, tile), tile.pixels * tile.filters
    runs = 8 // geometry.run
    window = runs * (14 + geometry.run) + geometry.bits * (16 + 1) + 16
    if geometry.totals:
        window += geometry.bits * (POPC_SLOTS + 1)
    items, vectors = tile.chunk * tile.block_pixels, geometry.bases * tile.chunk * tile.block_filters // 4
    staging = rounds * (-(-items // tile.threads) * window + -(-vectors // tile.threads) * 6)
    waits = rounds * (window_trips(tile) + weight_trips(geometry, tile))
    window_bytes = WORD_BITS * items
    if geometry.rows.taps > 1 and geometry.rows.read(tile.block_pixels) > _KEPT_BYTES:
        window_bytes *= _MISSES
    turns = tile.chunk // tile.split
    unrolled = together(geometry, tile)
    inner = outputs * geometry.bits * _slots(unrolled) / unrolled + tile.filters // 4 + geometry.bits + 4 / unrolled
    ends = outputs * 4 + tile.filters // 2 + 8
    summing = geometry.bases * (turns * inner + ends)
    if geometry.totals:
        summing += turns * (tile.pixels + 5) + ends
    shuffles = outputs * 2 * (tile.split.bit_length() - 1)
    finish = 8 * outputs + 60
    across, along = blocks(geometry, tile)
    warps = across * along * tile.threads // WARP
    phases = (
        Phase(warps * staging, staging, waits, across * along * rounds * (window_bytes + 16 * vectors)),
        Phase(warps * rounds * summing, rounds * summing),
        Phase(warps * (shuffles + finish), shuffles + finish, 2),
    )
    return Work(across * along, tile.threads, _registers(tile), 4 * layout(geometry, tile).words, phases)


def _registers(tile: Tile) -> int:
    """Estimated registers: sums, counts, words of pixels and filters, and the rest."""
    return 2 * tile.pixels * tile.filters + tile.pixels + tile.filters + _REGISTERS_BESIDE_TILE
