"""Reconvergence of the lanes of a warp: the stack of Maxwell and Pascal, the barrier registers of Volta and later.

SSY, PBK and BSSY give the active lanes a token with the address where they meet again. A lane that executes SYNC, BRK
or BSYNC waits until every lane of its warp that still has the token waits, too, or has ended. WARPSYNC waits for every
lane of the warp that has not ended.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta_proof.machine_code.execution.words import ExecutionError, Flags, by_warp

Lanes: TypeAlias = NDArray[np.int64]

DONE, WAITS, AT_CLUSTER, AT_BARRIER, POLLS = 1 << 30, 1 << 29, 3 << 27, 1 << 28, 1 << 27
"""Values of the program counter of lanes that have ended, wait for other lanes, wait at the cluster's barrier or that
of the block, or read a word again and again until another block changes it.
"""

_SLOTS = 32


class Convergence:
    """Program counters and tokens of all lanes. pc: index of the next instruction, or one of the values above."""

    def __init__(self, exists: Flags) -> None:
        self.pc = np.where(exists, 0, DONE)
        self.resume = np.zeros(len(exists), np.int64)
        self._slots = np.zeros((_SLOTS, len(exists)), np.int64)
        self._depth = np.zeros(len(exists), np.int64)
        self._awaited = np.zeros(len(exists), np.int64)
        self._meets = np.zeros(len(exists), np.bool_)
        self._targets = [(0, "")]

    def push(self, lanes: Flags, target: int, kind: str) -> None:
        """SSY, PBK: a token on the stack."""
        where = np.flatnonzero(lanes)
        if (self._depth[where] >= _SLOTS).any():
            raise ExecutionError("the stack of tokens is full")
        self._slots[self._depth[where], where] = self._new(target, kind)
        self._depth[where] += 1

    def put(self, lanes: Flags, slot: int, target: int) -> None:
        """BSSY: a token in a barrier register."""
        self._slots[slot, lanes] = self._new(target, "BSSY")

    def clear(self, lanes: Flags, slot: int) -> None:
        """BREAK: the lanes give back the token of a barrier register."""
        self._slots[slot, lanes] = 0
        self._settle()

    def sync(self, lanes: Flags) -> None:
        """SYNC: wait for the token on top of the stack."""
        self._pop(np.flatnonzero(lanes), "SSY")

    def leave(self, lanes: Flags) -> None:
        """BRK: discard tokens down to that of the last PBK, and wait for it."""
        self._pop(np.flatnonzero(lanes), "PBK")

    def wait(self, lanes: Flags, slot: int) -> None:
        """BSYNC: wait for the token in a barrier register."""
        self._await(np.flatnonzero(lanes), self._slots[slot, lanes])

    def meet(self, lanes: Flags, target: int) -> None:
        """WARPSYNC: go on at the target with all lanes of the warp that have not ended."""
        self.pc[lanes] = WAITS
        self.resume[lanes] = target
        self._meets[lanes] = True
        self._settle()

    def end(self, lanes: Flags) -> None:
        """EXIT."""
        self.pc[lanes] = DONE
        self._slots[:, lanes] = 0
        self._settle()

    def _new(self, target: int, kind: str) -> int:
        self._targets.append((target, kind))
        return len(self._targets) - 1

    def _pop(self, where: Lanes, kind: str) -> None:
        for lane in where[self._kinds(where) != kind]:
            while self._depth[lane] and self._targets[self._slots[self._depth[lane] - 1, lane]][1] != kind:
                if kind == "SSY":
                    raise ExecutionError("SYNC finds the token of a PBK on the stack")
                self._depth[lane] -= 1
                self._slots[self._depth[lane], lane] = 0
        if (self._depth[where] == 0).any():
            raise ExecutionError("a lane waits for a token that it does not have")
        self._await(where, self._slots[self._depth[where] - 1, where])

    def _kinds(self, where: Lanes) -> NDArray[np.str_]:
        tops = self._slots[np.maximum(self._depth[where] - 1, 0), where]
        numbers, places = np.unique(tops, return_inverse=True)
        return np.array([self._targets[number][1] for number in numbers])[places]

    def _await(self, where: Lanes, tokens: Lanes) -> None:
        if (tokens == 0).any():
            raise ExecutionError("a lane waits for a token that it does not have")
        self._awaited[where] = tokens
        self.pc[where] = WAITS
        self._settle()

    def _settle(self) -> None:
        """Let lanes go on whose token, or whose warp, is complete."""
        self._settle_warps()
        for token in np.unique(self._awaited[self._awaited > 0]):
            has = (self._slots == token).any(axis=0)
            arrived = self._awaited == token
            ready = np.repeat(~by_warp(has & ~arrived).any(axis=1), 32) & arrived
            if not ready.any():
                continue
            target, kind = self._targets[token]
            self._slots[:, ready] = np.where(self._slots[:, ready] == token, 0, self._slots[:, ready])
            if kind != "BSSY":
                self._depth[ready] -= 1
            self._awaited[ready] = 0
            self.pc[ready] = target

    def _settle_warps(self) -> None:
        """Let the warps go on all of whose lanes wait for each other at one place."""
        if not self._meets.any():
            return
        alive, place = by_warp(self.pc != DONE), self.resume.reshape(-1, 32)
        complete = (by_warp(self._meets) | ~alive).all(axis=1)
        low, high = (np.where(alive, place, bound) for bound in (DONE, -1))
        together = complete & (low.min(axis=1) == high.max(axis=1))
        ready = np.repeat(together, 32) & self._meets
        self.pc[ready] = self.resume[ready]
        self._meets[ready] = False
