"""Shared memory of several blocks, which detects races: a missing barrier, whatever order threads run in.

Between two barriers the warps of a block run in any order. So a word that one warp writes must not be read or written
by another until all have passed a barrier. For every word the last warp that wrote it, and those that read it, are
kept with the number of the barrier before. Within a warp instructions are in order.

In a cluster the address of a block's shared memory has the block's number in bits 24 and up.
"""

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.words import ExecutionError, Flags, Wide

_WARPS = 64
_SEVERAL = _WARPS - 1
_POISON = 0xA5
_BLOCK_BITS = 24


class SharedMemory:
    """`size` bytes for each of `blocks` blocks, all uninitialized. cluster: blocks of a cluster."""

    def __init__(self, blocks: int, size: int, cluster: int = 1) -> None:
        self.blocks = blocks
        self._cluster = cluster
        self._size = size
        self._stride = -(-size // 16) * 16 + 16
        self._data = np.full(blocks * self._stride, _POISON, np.uint8)
        self._writer = np.full(blocks * self._stride // 4, -1, np.int64)
        self._readers = np.full(blocks * self._stride // 4, -1, np.int64)
        self.epoch = np.zeros(blocks, np.int64)

    def load(self, blocks: Wide, warps: Wide, addresses: Wide, width: int) -> NDArray[np.uint8]:
        """Bytes [lanes, width]. Raises ExecutionError for a race, an uninitialized word, or a wrong address."""
        places, words, tags = self._places(blocks, warps, addresses, width)
        writer = self._writer[words]
        if (writer < 0).any():
            raise ExecutionError("a thread reads shared memory that no thread has written")
        epochs = tags - tags % _WARPS
        if ((writer >= epochs) & (writer != tags)).any():
            raise ExecutionError("a thread reads shared memory that another warp has written since the last barrier")
        readers = self._readers[words]
        new = np.where((readers >= epochs) & (readers != tags), epochs + _SEVERAL, tags)
        self._readers[words] = new
        differs: Flags = self._readers[words] != new
        if differs.any():
            self._readers[words[differs]] = np.broadcast_to(epochs, words.shape)[differs] + _SEVERAL
        return self._data.reshape(-1, width)[places // width]

    def store(self, blocks: Wide, warps: Wide, addresses: Wide, values: NDArray[np.uint8]) -> None:
        """Write bytes [lanes, width]. Raises ExecutionError for a race or a wrong address."""
        width = values.shape[1]
        places, words, tags = self._places(blocks, warps, addresses, width)
        epochs = tags - tags % _WARPS
        for kept, did in ((self._writer, "written"), (self._readers, "read")):
            found = kept[words]
            if ((found >= epochs) & (found != tags)).any():
                raise ExecutionError(
                    f"a thread writes shared memory that another warp has {did} since the last barrier"
                )
        self._writer[words] = tags
        if (self._writer[words] != tags).any():
            raise ExecutionError("two warps write the same word of shared memory between two barriers")
        rows = self._data.reshape(-1, width)
        rows[places // width] = values
        if (rows[places // width] != values).any():
            raise ExecutionError("two threads of a warp write different values to one address of shared memory")

    def _places(self, blocks: Wide, warps: Wide, addresses: Wide, width: int) -> tuple[Wide, Wide, Wide]:
        """Places in the data; the words [lanes, n] that an access covers; warp and barrier [lanes, 1]."""
        addresses = addresses - (blocks % self._cluster << _BLOCK_BITS)
        if ((addresses < 0) | (addresses > self._size - width)).any():
            wrong = int(addresses[(addresses < 0) | (addresses > self._size - width)][0])
            raise ExecutionError(f"a thread accesses {width} bytes at {wrong:#x} of {self._size} of shared memory")
        if (addresses % width).any():
            raise ExecutionError(f"a thread accesses {width} bytes of shared memory at no multiple of {width}")
        places = blocks * self._stride + addresses
        words = places[:, None] // 4 + np.arange(-(-width // 4))
        return places, words, (self.epoch[blocks] * _WARPS + warps)[:, None]
