"""The processes that train one network together: who they are, which rows of a batch each has, what they exchange.

Rows are dealt in turns, as PyTorch's DistributedSampler does: worker r of W has the rows r, r + W, r + 2 W ….
"""

import gc
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from edgemeta.toolchain.errors import CheckpointError


@dataclass(frozen=True)
class Workers:
    """Process number `rank`, which is this one, of `count`; all of them call the same functions in the same order."""

    rank: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this process is the one that writes files and reports."""
        return self.rank == 0

    def share(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of this worker, [m] of those [n] of all."""
        return index[self.rank :: self.count]

    def total(self, value: float) -> float:
        """The sum of all workers' values."""
        if self.count == 1:
            return value
        sums = torch.tensor([value], dtype=torch.float64)
        distributed.all_reduce(sums)
        return float(sums)

    def in_batch_order(self, rows: Tensor) -> Tensor:
        """The rows of the whole batch in their order; rows: those of this worker, [rows, …], as many as the others'."""
        if self.count == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.count)]
        distributed.all_gather(parts, rows.contiguous())
        return torch.stack(parts, 1).flatten(0, 1)

    def from_first(self, content: Callable[[], bytes | None]) -> bytes | None:
        """What the first worker alone reads; the others may be on other machines."""
        if self.count == 1:
            return content()
        mine = content() if self.first else None
        length = torch.tensor([-1 if mine is None else len(mine)])
        distributed.broadcast(length, 0)
        if length <= 0:
            return None if length < 0 else b""
        data = torch.frombuffer(bytearray(mine or bytes(int(length))), dtype=torch.uint8)
        distributed.broadcast(data, 0)
        return data.numpy().tobytes()

    def require_same(self, what: str, digest: str) -> None:
        """Raise CheckpointError unless the first worker has the same digest of something."""
        expected = (self.from_first(digest.encode) or b"").decode()
        if digest != expected:
            raise CheckpointError(
                f"worker {self.rank} has another {what} (digest {digest[:12]}), expected that of the first worker "
                f"({expected[:12]})"
            )


ALONE = Workers()

_TRANSPORT = "gloo/transport"
"""What stands in errors of a connection between workers."""


def workers_of_environment() -> Workers:
    """As `torchrun` says in RANK and WORLD_SIZE; without it, this process is alone."""
    return Workers(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))


@contextmanager
def joined_workers() -> Iterator[Workers]:
    """Meet the other workers (gloo, at the address that `torchrun` gives), and part from them at the end.

    Raises CheckpointError where the others cannot be reached, or one of them is lost.
    """
    workers = workers_of_environment()
    if workers.count == 1:
        yield workers
        return
    try:
        distributed.init_process_group("gloo", rank=workers.rank, world_size=workers.count)
        yield workers
    except RuntimeError as error:
        if not isinstance(error, distributed.DistError) and _TRANSPORT not in str(error):
            raise
        reason = str(error).splitlines()[0].partition("] ")[2].partition(". ")[0]
        raise CheckpointError(
            f"worker {workers.rank} has lost the others ({reason}); the same command continues after the last complete "
            "epoch"
        ) from error
    finally:
        if distributed.is_initialized():
            _part()


def _part() -> None:
    """End this process's threads of communication, whatever the reason: those that outlive Python abort the process.

    A DistributedDataParallel that is freed later than its process group waits for these threads and keeps the
    interpreter's lock, for which they may wait in turn; so it is freed first.
    """
    gc.collect()
    distributed.destroy_process_group()
