"""Tiles of a Winograd layer: its division into blocks and threads, and the estimated cost."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from operator import itemgetter

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.prediction import WARP, Phase, Work, busy_clocks
from edgemeta.model.winograd import F2_STRIDED, Transform

_SIDES = range(1, 9)
_SHARED_BYTES = 48 << 10  # without asking the driver for more
_SHARED_BYTES_OF_THREE = (64 << 10) // 3  # three blocks on a multiprocessor of sm_53
_REGISTER_GROUP = 128  # threads that are given registers together
_MAX_THREADS = 512

_TRANSFORM = {4: (60, 106), 5: (70, 126), 6: (90, 261)}
"""Instructions of a warp for transforming 32 patches, by their edge: once, and for each pair of channels."""

_FINISH = {4: (16, 80), 5: (145, 34), 6: (36, 236)}
"""Instructions of a warp for the epilogue of 32 tiles: once, and for each of its channels."""


@dataclass(frozen=True)
class Tile:
    """A division of the layer: tiles of m x m outputs, transformed to edge x edge; the rest as in kernel.cu.

    extra: additional products for the shortcut. A thread sums one product of thread_tiles tiles and thread_outputs
    channels; each product has side_tiles x side_outputs such threads. chunk_quads: groups of four input channels in
    shared memory at a time. patch_pairs: pairs of a group's channels that a thread transforms, 1 or 2. vector: channels
    that a thread computes together in the epilogue, 1, 2 or 4. Small ones give work to more threads.
    """

    m: int
    edge: int
    extra: int
    side_tiles: int
    side_outputs: int
    thread_tiles: int
    thread_outputs: int
    chunk_quads: int
    patch_pairs: int
    vector: int

    @property
    def positions(self) -> int:
        """Elements of a transformed tile."""
        return self.edge**2

    @property
    def products(self) -> int:
        """Products of a tile, including those of the shortcut."""
        return self.positions + self.extra

    @property
    def block_tiles(self) -> int:
        """Tiles of one block."""
        return self.side_tiles * self.thread_tiles

    @property
    def block_outputs(self) -> int:
        """Output channels of one block."""
        return self.side_outputs * self.thread_outputs

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return self.products * self.side_tiles * self.side_outputs

    @property
    def unroll(self) -> int:
        """Pairs of channels per loop iteration: about 256 multiply-adds."""
        return 2 if self.chunk_quads % 2 or self.thread_tiles * self.thread_outputs > 32 else 4

    @property
    def pair_padding(self) -> int:
        """Padding words after a pair of channels, so that the stores of the next quad use other banks."""
        return (min(self.block_tiles, 8) - self.positions * self.block_tiles) % 32

    @property
    def sum_padding(self) -> int:
        """Padding words after a product, so that eight threads that store 16 bytes each use all 32 banks."""
        return 4 * self.side_tiles * self.side_outputs % 32

    @property
    def shared_bytes(self) -> int:
        """Shared memory, used for the transformed input, then for the sums."""
        pair = self.positions * self.block_tiles + self.pair_padding
        product = self.block_tiles * self.block_outputs + self.sum_padding
        return 4 * max(2 * self.chunk_quads * pair, self.products * product)

    def registers(self, quads: int) -> int:
        """Most registers of a thread for an input of `quads` groups of channels, as measured.

        Sums and factors in the second step, columns of sums in the third; with several chunks, the sums so far in
        addition to the patches of the first.
        """
        sums = self.thread_tiles * self.thread_outputs
        patches = sums + 2 * self.positions + 24 if self.chunk_quads < quads else 0
        columns = self.edge * self.m * self.vector + (40 if self.m == 2 else 32)
        return max(sums + (46 if sums > 32 else 40), columns, patches)

    def likely_registers(self, quads: int) -> int:
        """Typical registers of a thread, which determine how many blocks are resident together."""
        sums = self.thread_tiles * self.thread_outputs
        patches = sums + 2 * self.positions + 24 if self.chunk_quads < quads and self.edge != F2_STRIDED.edge else 0
        return max(sums + 40, self.edge * self.m * self.vector * 7 // 6 + 16, patches)

    def work(self, count: int, channels: int, outputs: int, adds: bool) -> Work:
        """Estimated work of an image of `count` tiles, from counts of sm_53 machine code; adds: a residual is added."""
        quads = -(-channels // 4)
        blocks = -(-count // self.block_tiles) * -(-outputs // self.block_outputs)
        warps, chunks = -(-self.threads // WARP), quads // self.chunk_quads
        transforms = -(-self.block_tiles * self.chunk_quads * 2 // self.patch_pairs // WARP)
        turns = 2 * quads / self.unroll
        products = 2 * self.thread_tiles * self.thread_outputs + (self.thread_tiles + self.thread_outputs) / 4
        sums = turns * (self.unroll * products + 4) + self.thread_tiles * self.thread_outputs / 4 + 60
        finishes = -(-self.block_tiles * self.block_outputs // self.vector // WARP)
        once, by_channel = _FINISH[self.edge]
        finish = once + self.vector * (by_channel + 16 * self.m**2 * adds)
        once, by_pair = _TRANSFORM[self.edge]
        transform = once + self.patch_pairs * by_pair
        patches = blocks * chunks * transforms * WARP * 4 * self.edge**2
        weights = blocks * self.threads * 2 * quads * 4 * self.thread_outputs
        longest_transform = chunks * -(-transforms // warps) * transform
        phases = (
            Phase(blocks * chunks * transforms * transform, longest_transform, 2 * chunks, patches),
            Phase(blocks * warps * sums, sums, turns, weights),
            Phase(blocks * finishes * finish, -(-finishes // warps) * finish, 2),
        )
        return Work(blocks, self.threads, self.likely_registers(quads), self.shared_bytes, phases)


@lru_cache(maxsize=256)
def tiles(
    transform: Transform,
    extra: int,
    count: int,
    channels: int,
    outputs: int,
    adds: bool,
    architecture: Architecture,
) -> tuple[tuple[float, Tile], ...]:
    """Predicted clocks and tile, the shortest first: the tile with the shortest time, and others for tuning.

    These are the tile with the fewest instructions, and that with the fewest of those so small that three blocks are
    resident together. Empty if nothing fits. extra: as in Tile. count: tiles of an image. adds: a residual is added.
    """
    quads = -(-channels // 4)
    most = _MAX_THREADS // (transform.edge**2 + extra)
    sides = [(tiles, outputs) for tiles, outputs in product(_SIDES, _SIDES) if tiles * outputs <= most]
    chunks = [chunk for chunk in range(quads, 0, -1) if quads % chunk == 0]
    found = []
    threads = product((4, 8), (4, 8), chunks, (1, 2), (1, 2, 4))
    for side, thread in product(sides, threads):
        tile = Tile(transform.tile, transform.edge, extra, *side, *thread)
        if _runs(tile, quads, architecture):
            work = tile.work(count, channels, outputs, adds)
            found.append((busy_clocks(work, architecture), work.instructions, -tile.threads, tile))
    small = [each for each in found if each[3].shared_bytes <= _SHARED_BYTES_OF_THREE and each[3].vector == 2]
    offers = [min(found, key=itemgetter(0, 1, 2)), min(found, key=itemgetter(1, 2))] if found else []
    if small:
        offers.append(min(small, key=itemgetter(1, 2)))
    return tuple((clocks, tile) for clocks, _, _, tile in sorted(dict.fromkeys(offers), key=itemgetter(0, 1, 2)))


def _runs(tile: Tile, quads: int, architecture: Architecture) -> bool:
    """Whether shared memory and registers suffice for a block."""
    if tile.shared_bytes > min(architecture.shared_bytes, _SHARED_BYTES):
        return False
    groups = -(-tile.threads // _REGISTER_GROUP)
    return tile.registers(quads) <= architecture.registers // (groups * _REGISTER_GROUP)
