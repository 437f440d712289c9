"""Number formats as records: what a config names, and the grid that each one rounds to.

A format with a scale of its own (an exponent or a step shared by a tensor, a channel or a block) gives the grid for
scale one; `scaling` finds the scale.
"""

from functools import cached_property
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.grid import FLOAT32_MANTISSA, Beyond, Grid

ObserverName = Literal["min_max", "moving_average", "percentile", "mean_squared_error"]


class _Format(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FlexFloat(_Format):
    """FlexFP(e, m, b): one sign bit, `exponent` and `mantissa` bits.

    The value of exponent code E and mantissa code M is +-(1 + M / 2**m) 2**(E - (2**(e-1) - 1) + b), and for E = 0
    +-(M / 2**m) 2**(1 - (2**(e-1) - 1) + b): subnormals. specials: the codes that are no numbers: "none"; "ieee": the
    greatest exponent is infinity and NaN; "nan": the greatest code alone is NaN (OCP's e4m3). overflow: whether a value
    that is too great becomes the greatest number, or infinity (without one: NaN). shared_exponent: the tensor's largest
    magnitude decides, at each step, what is added to b: the least integer with which nothing is limited (dynamic shared
    exponent).
    """

    kind: Literal["flexfp"] = "flexfp"
    exponent: int = Field(ge=1, le=8)
    mantissa: int = Field(ge=0, le=FLOAT32_MANTISSA)
    bias: int = Field(default=0, ge=-126, le=127)
    specials: Literal["none", "ieee", "nan"] = "none"
    overflow: Literal["saturate", "special"] = "saturate"
    shared_exponent: bool = False

    @property
    def greatest_exponent(self) -> int:
        """Exponent of the greatest value."""
        codes = (1 << self.exponent) - 1 - self._no_number_above
        return codes - self._offset

    @property
    def _offset(self) -> int:
        return (1 << self.exponent - 1) - 1 - self.bias

    @property
    def _no_number_above(self) -> bool:
        """Whether the greatest exponent holds no number."""
        return self.specials == "ieee" or (self.specials == "nan" and self.mantissa == 0)

    @model_validator(mode="after")
    def _check(self) -> "FlexFloat":
        if self._no_number_above and self.exponent == 1:
            raise ValueError("with one exponent bit and a special exponent no normal number is left")
        if self.overflow == "special" and self.specials == "none":
            raise ValueError("`overflow: special` needs a format with infinity or NaN (`specials`)")
        if self.shared_exponent and self.overflow == "special":
            raise ValueError("with a shared exponent nothing overflows: `overflow` must be saturate")
        self.grid  # noqa: B018 (raises for a format that float32 does not hold)
        return self

    @cached_property
    def grid(self) -> Grid:
        """Its values."""
        codes = (1 << self.mantissa) - 1 - (self.specials == "nan" and self.mantissa > 0)
        highest = (1 + codes / 2**self.mantissa) * 2.0**self.greatest_exponent
        beyond: Beyond = "saturate"
        if self.overflow == "special":
            beyond = "infinity" if self.specials == "ieee" else "nan"
        return Grid(self.mantissa, 1 - self._offset - self.mantissa, -highest, highest, beyond)


class FixedPoint(_Format):
    """Qn: a signed integer of `bits` bits over 2**fraction."""

    kind: Literal["fixed"] = "fixed"
    bits: int = Field(ge=1, le=24)
    fraction: int = Field(ge=-100, le=100)

    @cached_property
    def grid(self) -> Grid:
        """Its values."""
        step = 2.0**-self.fraction
        return Grid(24, -self.fraction, -(2.0 ** (self.bits - 1)) * step, (2.0 ** (self.bits - 1) - 1) * step)


class PowerOfTwo(_Format):
    """0 or +-2**k, k of 2**(bits-2) values in a row, the greatest floor(log2(4 / 3 of the largest magnitude))."""

    kind: Literal["power_of_two"] = "power_of_two"
    bits: int = Field(ge=2, le=5)

    @cached_property
    def grid(self) -> Grid:
        """Its values for the greatest exponent 0."""
        return Grid(0, 1 - (1 << self.bits - 2), -1.0, 1.0)


class Integer(_Format):
    """scale (q - zero_point), q an integer of `bits` bits; scale and zero point from an observer.

    symmetric: the zero point is 0; signed integers are then -(2**(bits-1) - 1) .. 2**(bits-1) - 1, so that a channel
    can change its sign. percentile: with the observer of this name, the share of elements, in percent, that is not
    beyond an end.
    """

    kind: Literal["int"] = "int"
    bits: int = Field(ge=1, le=16)
    signed: bool = True
    symmetric: bool = False
    per_channel: bool = False
    observer: ObserverName = "min_max"
    percentile: float = Field(default=99.99, gt=50, le=100)

    @model_validator(mode="after")
    def _check(self) -> "Integer":
        if self.observer != "percentile" and "percentile" in self.model_fields_set:
            raise ValueError(f"`percentile` belongs to `observer: percentile`, found `observer: {self.observer}`")
        if self.symmetric and self.signed and self.bits == 1:
            raise ValueError("signed integers of one bit are -1 and 0, which is not symmetric: at least 2 bits")
        return self

    @property
    def counts_elements(self) -> bool:
        """Whether its range depends on all elements, and not on the least and greatest alone."""
        return self.observer in ("percentile", "mean_squared_error")

    @property
    def least(self) -> int:
        """Its least integer."""
        if not self.signed:
            return 0
        return -self.greatest if self.symmetric else -self.greatest - 1

    @property
    def greatest(self) -> int:
        """Its greatest integer."""
        return (1 << self.bits - self.signed) - 1


class Block(_Format):
    """Blocks of `size` elements along the channels with a common power-of-two scale (OCP microscaling, MX).

    The scale is 2**(exponent of the block's largest magnitude - greatest exponent of the element).
    """

    kind: Literal["block"] = "block"
    element: FlexFloat | FixedPoint
    size: int = Field(default=32, ge=2, le=4096)

    @model_validator(mode="after")
    def _check(self) -> "Block":
        if isinstance(self.element, FlexFloat) and (self.element.shared_exponent or self.element.overflow == "special"):
            raise ValueError("a block's element has the block's scale, and saturates")
        return self

    @cached_property
    def grid(self) -> Grid:
        """The values of an element for scale 1."""
        return self.element.grid


class Float32(_Format):
    """float32 as it is: nothing is rounded."""

    kind: Literal["float32"] = "float32"


class Accumulator(_Format):
    """Sums of integer products as integers of `bits` bits in two's complement; overflow: what a greater sum does."""

    kind: Literal["accumulator"] = "accumulator"
    bits: int = Field(ge=1, le=32)
    overflow: Literal["wrap", "saturate"]


Format: TypeAlias = Annotated[
    FlexFloat | FixedPoint | PowerOfTwo | Integer | Block | Float32, Field(discriminator="kind")
]

E4M3 = FlexFloat(exponent=4, mantissa=3, specials="nan")
E5M2 = FlexFloat(exponent=5, mantissa=2, specials="ieee")
BFLOAT16 = FlexFloat(exponent=8, mantissa=7, specials="ieee", overflow="special")

PRESETS: dict[str, Format] = {
    "float32": Float32(),
    "bfloat16": BFLOAT16,
    "float16": FlexFloat(exponent=5, mantissa=10, specials="ieee", overflow="special"),
    "fp8_e4m3": E4M3,
    "fp8_e5m2": E5M2,
    "flexfp8_e4m3": FlexFloat(exponent=4, mantissa=3),
    "flexfp8_e5m2": FlexFloat(exponent=5, mantissa=2),
    "flexfp8_e4m3_shared": FlexFloat(exponent=4, mantissa=3, shared_exponent=True),
    "flexfp8_e5m2_shared": FlexFloat(exponent=5, mantissa=2, shared_exponent=True),
    "mxfp8_e4m3": Block(element=E4M3),
    "mxfp8_e5m2": Block(element=E5M2),
    "mxfp6_e3m2": Block(element=FlexFloat(exponent=3, mantissa=2)),
    "mxfp6_e2m3": Block(element=FlexFloat(exponent=2, mantissa=3)),
    "mxfp4_e2m1": Block(element=FlexFloat(exponent=2, mantissa=1)),
    "mxint8": Block(element=FixedPoint(bits=8, fraction=6)),
    "int8": Integer(bits=8),
    "int8_symmetric": Integer(bits=8, symmetric=True),
    "int8_per_channel": Integer(bits=8, symmetric=True, per_channel=True),
    "int4": Integer(bits=4),
    "int4_per_channel": Integer(bits=4, symmetric=True, per_channel=True),
    "power_of_two_5": PowerOfTwo(bits=5),
    "power_of_two_4": PowerOfTwo(bits=4),
    "power_of_two_3": PowerOfTwo(bits=3),
}
"""Formats by name."""

_ADAPTER: TypeAdapter[Format] = TypeAdapter(Format)


def format_of(value: object) -> Format:
    """A format from a preset's name or a dict of its fields. Raises SimulateError."""
    if isinstance(value, str):
        if value not in PRESETS:
            raise SimulateError(f"found the format {value!r}, expected one of {', '.join(PRESETS)}, or its fields")
        return PRESETS[value]
    try:
        return _ADAPTER.validate_python(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])
        raise SimulateError(f"format {value!r}: {place + ': ' if place else ''}{first['msg']}") from error


def accumulator_of(value: object) -> Accumulator | Float32:
    """An accumulator from a dict of its fields, or `float32` for none. Raises SimulateError."""
    if value == "float32":
        return Float32()
    try:
        return Accumulator.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SimulateError(
            f"found the accumulator {value!r}, expected `float32`, or `bits` and `overflow`: "
            f"{place + ': ' if place else ''}{first['msg']}"
        ) from error


def name_of(kind: Format | Accumulator) -> str:
    """The name of a preset, or the fields of another format in a short form."""
    for name, preset in PRESETS.items():
        if preset == kind:
            return name
    fields = {key: value for key, value in kind.model_dump(exclude_defaults=True).items() if key != "kind"}
    return f"{kind.kind}({', '.join(f'{key}={value}' for key, value in fields.items())})"
