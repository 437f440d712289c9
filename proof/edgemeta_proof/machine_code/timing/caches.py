"""The path of a multiprocessor's accesses to global memory: L1 cache, L2 cache, memory."""

from collections import OrderedDict
from dataclasses import dataclass, field

from edgemeta_proof.machine_code.timing.generations import Generation
from edgemeta_proof.machine_code.timing.trace import SECTOR, Access


@dataclass(frozen=True)
class Bandwidth:
    """What a multiprocessor gets, per clock. l2: bytes from the L2 cache; memory: bytes from memory, its share.

    warm: data is in the L2 cache before the launch.
    """

    l2: float
    memory: float
    warm: bool


@dataclass
class Caches:
    """The L1 cache with its sectors in order of use, the port to the L2 cache and the one to memory, as clocks.

    The ports take one access after another: an access begins when the port is free.
    """

    generation: Generation
    bandwidth: Bandwidth
    _kept: OrderedDict[int, None] = field(default_factory=OrderedDict)
    _seen: set[int] = field(default_factory=set)
    _l1_free: float = 0.0
    _l2_free: float = 0.0
    _memory_free: float = 0.0

    def load(self, access: Access, clock: float, is_cached: bool) -> float:
        """The clock at which the data of a load is there. is_cached: the L1 cache may have it."""
        generation = self.generation
        begin = max(clock, self._l1_free)
        self._l1_free = begin + access.look_ups / generation.look_ups
        end = self._l1_free + generation.l1
        for sector in access.sectors:
            if is_cached and sector in self._kept:
                self._kept.move_to_end(sector)
                continue
            end = max(end, self._from_l2(sector, begin))
            if is_cached:
                self._keep(sector)
        return end

    def store(self, access: Access, clock: float) -> float:
        """The clock at which a store has left the multiprocessor."""
        begin = max(clock, self._l1_free)
        self._l1_free = begin + access.look_ups / self.generation.look_ups
        self._l2_free = max(begin, self._l2_free) + len(access.sectors) * SECTOR / self.bandwidth.l2
        self._seen.update(access.sectors)
        for sector in access.sectors:
            self._kept.pop(sector, None)
        return max(self._l1_free, self._l2_free)

    def fence(self, clock: float) -> float:
        """The clock at which all stores so far are in the L2 cache, and a sign of it is back."""
        return max(clock, self._l2_free) + self.generation.l2

    def empty(self) -> None:
        """The L1 cache holds nothing any more."""
        self._kept.clear()

    def atomic(self, access: Access, clock: float) -> float:
        """The clock at which the result of an atomic operation of the L2 cache is there."""
        return self.store(access, clock) + self.generation.l2

    def _from_l2(self, sector: int, clock: float) -> float:
        self._l2_free = max(clock, self._l2_free) + SECTOR / self.bandwidth.l2
        if self.bandwidth.warm or sector in self._seen:
            return self._l2_free + self.generation.l2
        self._seen.add(sector)
        self._memory_free = max(clock, self._memory_free) + SECTOR / self.bandwidth.memory
        return max(self._l2_free, self._memory_free) + self.generation.memory

    def _keep(self, sector: int) -> None:
        self._kept[sector] = None
        if len(self._kept) > self.generation.l1_bytes // SECTOR:
            self._kept.popitem(last=False)
