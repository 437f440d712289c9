"""The hardware's barrier of all threads of a cluster: who has arrived, and the fences around it."""

import numpy as np

from edgemeta_proof.machine_code.execution.atomics import is_fence
from edgemeta_proof.machine_code.execution.words import ExecutionError, Flags, Wide, refuse
from edgemeta_proof.machine_code.sass import Code, Instruction

ARRIVE, WAIT = "UCGABAR_ARV", "UCGABAR_WAIT"

_MEMORY = frozenset({"LDG", "LD", "LDS", "LDSM", "LDL", "STG", "ST", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "RED"})
_JUMPS = frozenset({"BRA", "CALL", "RET", "EXIT", "BSYNC", "BAR", "WARPSYNC", ARRIVE, WAIT})


class ClusterBarrier:
    """Barrier of the clusters of a wave. cluster: of each lane.

    A lane arrives, and later waits until all lanes of its cluster that have not ended have arrived as often.
    """

    def __init__(self, cluster: Wide) -> None:
        self._cluster = cluster
        self._arrived = np.zeros(len(cluster), np.int64)
        self._passed = np.zeros(len(cluster), np.int64)

    def arrive(self, lanes: Flags) -> None:
        """Raises ExecutionError for a lane that has arrived already and not waited since."""
        if (self._arrived[lanes] != self._passed[lanes]).any():
            raise ExecutionError("a thread arrives twice at the cluster's barrier before it waits there")
        self._arrived[lanes] += 1

    def wait(self, lanes: Flags) -> None:
        """Raises ExecutionError for a lane that has not arrived."""
        if (self._arrived[lanes] == self._passed[lanes]).any():
            raise ExecutionError("a thread waits at the cluster's barrier where it has not arrived")
        self._passed[lanes] += 1

    def opened(self, waiting: Flags, ended: Flags) -> Flags:
        """The waiting lanes that may go on."""
        least = np.full(int(self._cluster.max()) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, self._cluster[~ended], self._arrived[~ended])
        return waiting & (least[self._cluster] >= self._passed)


def check_cluster_fences(code: Code) -> None:
    """Raise ExecutionError unless each arrival publishes what was written, and no load after a wait finds old data.

    Executing code in order shows neither. In straight code: a fence for all blocks, the arrival, the wait, and the
    instruction that empties the L1 cache; between them nothing accesses memory.
    """
    instructions = code.instructions
    targets = {each.target for each in instructions}
    for index, each in enumerate(instructions):
        if each.base == ARRIVE:
            before = index - 1
            while before >= 0 and before + 1 not in targets and _is_harmless(instructions[before]):
                before -= 1
            if before < 0 or before + 1 in targets or not is_fence(instructions[before]):
                raise refuse(each, "there is no fence for other blocks before it")
            if _next(code, index, targets) != WAIT:
                raise refuse(each, "only memory accesses after the wait are modelled")
        elif each.base == WAIT and _next(code, index, targets) != "CCTL":
            raise refuse(each, "the L1 cache is not emptied after it")


def _next(code: Code, index: int, targets: set[int | None]) -> str:
    """The opcode of the first instruction after one that is not harmless; empty where a jump leads before that."""
    for n in range(index + 1, len(code.instructions)):
        if n in targets:
            return ""
        if not _is_harmless(code.instructions[n]):
            return code.instructions[n].base
    return ""


def _is_harmless(i: Instruction) -> bool:
    """Whether an instruction neither accesses memory nor jumps, nor orders accesses."""
    empties = i.base == "CCTL" and "IVALL" in i.modifiers
    return not (i.base in _MEMORY | _JUMPS or is_fence(i) or empties)
