"""The values that a format can hold, as far as rounding has to know them."""

from dataclasses import dataclass, replace
from typing import Literal

from edgemeta.toolchain.errors import SimulateError

Beyond = Literal["saturate", "infinity", "nan"]
"""What a value becomes that is beyond the greatest one after rounding."""

FLOAT32_MANTISSA, FLOAT32_LEAST, FLOAT32_GREATEST = 23, -126, 127
"""float32: mantissa bits, and the exponents of its least and greatest normal number."""


@dataclass(frozen=True)
class Grid:
    """The multiples of a power of two that is `mantissa` places below a number's first bit, and at least 2**quantum.

    In binades above 2**(quantum + mantissa) the grid is a floating-point one, below it a fixed-point one.
    lowest, highest: its least and greatest finite value. beyond: what a greater magnitude becomes.
    Raises SimulateError for a grid that float32 does not hold.
    """

    mantissa: int
    quantum: int
    lowest: float
    highest: float
    beyond: Beyond = "saturate"

    def __post_init__(self) -> None:
        least, greatest = self.quantum, max(abs(self.lowest), abs(self.highest))
        if least < FLOAT32_LEAST - min(self.mantissa, FLOAT32_MANTISSA) or greatest >= 2.0 ** (FLOAT32_GREATEST + 1):
            raise SimulateError(
                f"a format with steps of 2**{least} and values up to {greatest:g} does not fit into float32, in which "
                "it is simulated"
            )

    def shifted(self, exponent: int) -> "Grid":
        """The grid times 2**exponent. Raises SimulateError."""
        factor = 2.0**exponent
        return replace(
            self, quantum=self.quantum + exponent, lowest=self.lowest * factor, highest=self.highest * factor
        )
