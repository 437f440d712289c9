"""A board that is not there: a network behind a serial line in Verilator, its two pins at a pseudo terminal."""

import os
import threading
import tty
from ctypes import CDLL, c_bool, c_int, c_uint64, c_void_p
from functools import partial
from pathlib import Path
from types import TracebackType

from edgemeta.kernels.fpga.generate.network import Network
from edgemeta.kernels.fpga.generate.verilog import board_source
from edgemeta.kernels.fpga.simulate.model import Top, simulation_library

DIVIDER = 2
"""Clocks per bit, as few as the receiver takes where no clocks meet: waiting for a line costs time here."""

BOARD = Top("edgemeta_board", "board.sv", "board.cc", partial(board_source, divider=DIVIDER))

_MARGIN = 10_000
"""Clocks after the sum of all engines' until which a last word may come."""


class SimulatedBoard:
    """Runs in a thread while the `with` block lasts; a program opens `port` as the serial port of a board.

    folder: of compiled simulations. The first one of a network is compiled, which takes a minute or more. Raises
    FpgaError.
    """

    def __init__(self, network: Network, folder: Path | None = None) -> None:
        self._lib = _bind(CDLL(str(simulation_library(network, folder, BOARD))))
        quiet = sum(engine.steps for engine in network.engines) + _MARGIN
        self._handle = self._lib.edgemeta_board_open(DIVIDER, quiet)
        self._ends: tuple[int, ...] = ()
        self.port = ""

    def __enter__(self) -> "SimulatedBoard":
        self.plug()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        self._lib.edgemeta_board_close(self._handle)

    @property
    def clocks(self) -> int:
        """Since power-on; the clock stands while nothing is to be done."""
        return int(self._lib.edgemeta_board_clocks(self._handle))

    def plug(self) -> None:
        """Connect the line to a new pseudo terminal, `port`. The board goes on as it was left."""
        self._ends = os.openpty()
        line, host = self._ends  # the host's end stays open here, or the line would end with each program
        os.set_blocking(line, False)
        tty.setraw(host)
        self.port = os.ttyname(host)
        self._lib.edgemeta_board_stop(self._handle, False)
        self._thread = threading.Thread(target=self._lib.edgemeta_board_serve, args=(self._handle, line), daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """Pull the cable; the board keeps its power."""
        self._lib.edgemeta_board_stop(self._handle, True)
        self._thread.join()
        for end in self._ends:
            os.close(end)
        self._ends = ()

    def disturb(self, every: int) -> None:
        """Invert the last of so many bits on the line, both directions counted together, again and again; 0: none."""
        self._lib.edgemeta_board_disturb(self._handle, every)


def _bind(library: CDLL) -> CDLL:
    signatures = {
        "open": ([c_uint64, c_uint64], c_void_p),
        "close": ([c_void_p], None),
        "stop": ([c_void_p, c_bool], None),
        "clocks": ([c_void_p], c_uint64),
        "disturb": ([c_void_p, c_uint64], None),
        "serve": ([c_void_p, c_int], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"edgemeta_board_{name}")
        function.argtypes, function.restype = arguments, result
    return library
