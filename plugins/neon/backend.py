"""Runs models in the C++ library of `kernels.cpu` on ARM, with NEON and nothing less.

It is the backend `cpu` with the instruction sets of ARM: where a processor has none of them, it is not available, while
`cpu` runs portable code. Options: as of `cpu`; `isa` is auto, neon, dotprod or i8mm.
"""

from edgemeta.kernels.cpu.library import ARM_ISAS, LibraryError, best_isa
from edgemeta.plugins.api import Probe
from edgemeta.plugins.cpu.backend import CpuBackend


class NeonBackend(CpuBackend):
    """As `Backend`; the module's docstring lists the options."""

    def __init__(self) -> None:
        super().__init__("neon", ARM_ISAS)

    def probe(self) -> Probe:
        """Available on ARM with NEON, before `cpu` by its score; the reason names the instruction set."""
        try:
            isa = best_isa()
        except LibraryError as error:
            return Probe(False, str(error))
        if isa not in ARM_ISAS:
            return Probe(False, f"this is no ARM processor with NEON: the best instruction set of the library is {isa}")
        probe = super().probe()
        return Probe(True, probe.reason, probe.score + 1)


BACKEND = NeonBackend()
