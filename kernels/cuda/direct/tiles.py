"""Tiles of the direct convolution: the possible ones, and their order by rule.

The rule is the predicted time (`prediction`) for instruction counts estimated from the kernel's loops: products, loads,
staging and the epilogue. Effects that only a device shows (caches, latencies) are left to tuning.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from itertools import product

from edgemeta.kernels.cuda.direct.fields import PLAIN, Fields
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.prediction import WARP, Phase, Work, busy_clocks

_SHARED_LIMIT = 48 * 1024
"""Shared memory of a launch without special configuration of the driver."""

_REGISTERS_BESIDE_TILE = 40
"""Registers in addition to sums, pixels, weights and the channels' constants, as reported by ptxas."""

_THREADS_OF_FOUR_WARPS = 128
"""Each of the four schedulers has a quarter of the registers."""

_BANKS = 32

AHEAD = 3
"""Vectors of weights that a thread loads before the patch, so that it waits for both once."""

_UNPACKING = 2
"""Instructions that add one field to a sum: cut it out, add it."""


@dataclass(frozen=True)
class Geometry:
    """Properties of a convolution that determine its tiles.

    height, width, filters: of the output. channels: input channels in memory that are used, including padding. depth:
    channels of a word. vector_bytes: channels per load. beside: a shortcut is also computed. fields: of the weights,
    for depth 2 and no shortcut.
    """

    height: int
    width: int
    filters: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    channels: int
    depth: int
    vector_bytes: int
    beside: bool
    fields: Fields = PLAIN


@dataclass(frozen=True)
class Tile:
    """A thread computes pixels x filters outputs; a block has tile_x * tile_y * threads_c * split threads.

    chunk: planes of input channels in shared memory at once.
    """

    pixels: int
    filters: int
    tile_x: int
    tile_y: int
    threads_c: int
    split: int
    chunk: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile_x * self.tile_y * self.threads_c * self.split

    @property
    def block_filters(self) -> int:
        """Output channels of a block."""
        return self.threads_c * self.filters

    def as_dict(self) -> dict[str, int]:
        """For reports."""
        return asdict(self)


@dataclass(frozen=True)
class Layout:
    """Shared memory of a block, in words.

    The patch starts at 0, the weights at weights_at. The partial sums of the splits start at scratch_at and replace
    both, or only the weights if the shortcut still needs the patch.
    """

    patch_height: int
    patch_width: int
    phase_words: int
    row_words: int
    plane_words: int
    weights_at: int
    weight_words: int
    scratch_words: int

    scratch_at: int

    @property
    def words(self) -> int:
        """Total size."""
        return max(self.weights_at + self.weight_words, self.scratch_at + self.scratch_words)


def layout(geometry: Geometry, tile: Tile) -> Layout:
    """Layout of the shared memory of a block."""
    patch_height = (tile.tile_y - 1) * geometry.stride[0] + geometry.kernel[0]
    patch_width = (tile.tile_x * tile.pixels - 1) * geometry.stride[1] + geometry.kernel[1]
    alignment = next(words for words in (4, 2, 1) if tile.pixels % words == 0)
    phase_words = _rounded_up(-(-patch_width // geometry.stride[1]), alignment)
    span = min(tile.tile_x * tile.pixels, _BANKS)
    rows = min(_BANKS // span, tile.tile_y)
    row_words = _row_words(phase_words * geometry.stride[1], geometry.stride[0], span, rows, alignment)
    plane_words = _rounded_up(patch_height * row_words, 4)
    scratch_words = tile.threads * tile.pixels * tile.filters if tile.split > 1 else 0
    weights_at = tile.chunk * plane_words
    return Layout(
        patch_height,
        patch_width,
        phase_words,
        row_words,
        plane_words,
        weights_at,
        _weight_words(geometry, tile),
        scratch_words,
        weights_at if geometry.beside else 0,
    )


@lru_cache(maxsize=256)
def tiles(geometry: Geometry, architecture: Architecture) -> tuple[Tile, ...]:
    """All tiles that fit, the best by rule first; of equal ones that with the most threads."""
    possible = sorted(
        (busy_clocks(work(geometry, tile), architecture), -tile.threads, index, tile)
        for index, tile in enumerate(_possible(geometry, architecture))
    )
    return tuple(tile for _, _, _, tile in possible)


def _possible(geometry: Geometry, architecture: Architecture) -> Iterator[Tile]:
    for pixels, filters, tile_y, threads_c, split in product(
        (8, 4, 2, 1), (16, 8, 4), (16, 8, 4, 2, 1), (8, 4, 2, 1), (1, 2, 4)
    ):
        columns = -(-geometry.width // pixels)
        is_wasteful = (
            (tile_y > 1 and tile_y >= 2 * geometry.height)
            or (threads_c > 1 and filters * threads_c >= 2 * geometry.filters)
            or (pixels > 1 and pixels >= 2 * geometry.width)
        )
        if is_wasteful or pixels * filters > 64 or pixels % split:
            continue
        for tile_x in {min(columns, most) for most in (2, 4, 8, 16)}:
            threads = tile_x * tile_y * threads_c * split
            cut = Tile(pixels, filters, tile_x, tile_y, threads_c, split, 0)
            registers = _rounded_up(threads, _THREADS_OF_FOUR_WARPS) * _registers(geometry, cut)
            if threads > 256 or registers > architecture.registers:
                continue
            tile = _with_chunk(geometry, cut, architecture)
            if tile is not None and _weight_words(geometry, tile) % 4 == 0:  # whole vectors of 16 bytes
                yield tile


def _with_chunk(geometry: Geometry, tile: Tile, architecture: Architecture) -> Tile | None:
    """The tile with as many planes at once as fit; None if not even those of one load fit."""
    step = max(geometry.vector_bytes // geometry.depth, 1)
    while step % tile.split:
        step *= 2
    planes = _rounded_up(-(-geometry.channels // geometry.depth), step)
    limit = min(architecture.shared_bytes, _SHARED_LIMIT)
    passes = 1
    while True:
        chunk = _rounded_up(-(-planes // passes), step)
        sized = Tile(tile.pixels, tile.filters, tile.tile_x, tile.tile_y, tile.threads_c, tile.split, chunk)
        if 4 * layout(geometry, sized).words <= limit:
            return sized
        if chunk == step:
            return None
        passes += 1


def words(geometry: Geometry, tile: Tile) -> int:
    """Words of weights that a thread reads for one tap and one plane."""
    return -(-tile.filters // geometry.fields.count)


def block_words(geometry: Geometry, tile: Tile) -> int:
    """The same of a block."""
    return tile.threads_c * words(geometry, tile)


def together(geometry: Geometry, tile: Tile) -> int:
    """Planes whose products are added up before fields are unpacked."""
    planes = tile.chunk // tile.split
    return next(each for each in range(geometry.fields.planes, 0, -1) if planes % each == 0)


def _weight_words(geometry: Geometry, tile: Tile) -> int:
    return tile.chunk * geometry.kernel[0] * geometry.kernel[1] * block_words(geometry, tile)


def passes(geometry: Geometry, tile: Tile) -> int:
    """Number of times that a block fills its shared memory."""
    return -(-geometry.channels // (tile.chunk * geometry.depth))


def blocks(geometry: Geometry, tile: Tile) -> tuple[int, int]:
    """Blocks over the pixels of one image and over its channels."""
    columns, rows = -(-geometry.width // (tile.tile_x * tile.pixels)), -(-geometry.height // tile.tile_y)
    return columns * rows, -(-geometry.filters // tile.block_filters)


def patch_loop(geometry: Geometry, tile: Tile, sizes: Layout) -> tuple[int, int]:
    """Trip count of the loop that stages the patch, and number of loads that a thread issues together."""
    items = tile.chunk * geometry.depth // geometry.vector_bytes * sizes.patch_height * sizes.patch_width
    at_once = min(-(-items // tile.threads), max(1, 16 // (geometry.vector_bytes // 4)))
    return -(-items // (tile.threads * at_once)), at_once


def work(geometry: Geometry, tile: Tile) -> Work:
    """Estimated work for one image, from the kernel's loops."""
    sizes, rounds = layout(geometry, tile), passes(geometry, tile)
    trips, at_once = patch_loop(geometry, tile, sizes)
    products = tile.pixels * words(geometry, tile) * geometry.kernel[1] * (2 if geometry.depth == 2 else 1)
    if geometry.fields.count > 1:
        products += _UNPACKING * tile.pixels * tile.filters // together(geometry, tile)
    spans = geometry.stride[1] * (-(-tile.pixels // 4) + (geometry.kernel[1] > geometry.stride[1]))
    inner = products + spans + geometry.kernel[1] * words(geometry, tile) // 4 + 6
    turns: float = geometry.kernel[0] * tile.chunk // tile.split * rounds
    per_load = 16 + geometry.vector_bytes // geometry.depth * 2
    loads = trips * at_once * per_load * rounds
    weight_trips = -(-sizes.weight_words // (4 * tile.threads))
    weights = 6 * rounds * weight_trips
    waits = rounds * (trips + max(0, weight_trips - AHEAD) + 1)
    outputs = tile.pixels * tile.filters
    ends = 8 * outputs // tile.split + (outputs if tile.split > 1 else 0) + 60
    last_waits = 3 if tile.split > 1 else 2
    if geometry.beside:
        turns += turns / (geometry.kernel[0] * geometry.kernel[1])
        ends, last_waits = 2 * ends, 2 * last_waits + rounds
        if rounds > 1:
            loads, waits = 2 * loads, waits + rounds * trips
    across, along = blocks(geometry, tile)
    warps = across * along * -(-tile.threads // WARP)
    phases = (
        Phase(warps * (loads + weights), loads + weights, waits),
        Phase(warps * inner * turns, inner * turns),
        Phase(warps * ends, ends, last_waits),
    )
    return Work(across * along, tile.threads, _registers(geometry, tile), 4 * sizes.words, phases)


def _registers(geometry: Geometry, tile: Tile) -> int:
    """Estimated registers: sums, packed sums, pixels, weights of two filters at a time, and the rest."""
    packed = tile.pixels * words(geometry, tile) if geometry.fields.count > 1 else 0
    return tile.pixels * tile.filters + packed + tile.pixels + 2 * tile.filters + _REGISTERS_BESIDE_TILE


@cache
def _row_words(words: int, stride: int, span: int, rows: int, alignment: int) -> int:
    """Row length of at least `words` for which the rows of `span` words of a quarter warp are in different banks."""
    for padded in range(words, words + _BANKS, alignment):
        starts = [row * stride * padded % _BANKS for row in range(rows)]
        if len({(start + word) % _BANKS for start in starts for word in range(span)}) == rows * span:
            return padded
    return words


def _rounded_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
