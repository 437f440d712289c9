"""Tables that are generated from the operators: every ordered pair with unlike zero points, every limit of every field.

In a pair the second operator reads the first one alone, as planners want it for a fusion. In a row of limits one field
has a limit; `whole_products` has all combinations of an operator's limits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from math import prod

from edgemeta.model.layers import Shape, TensorType
from tests.conformance.networks import Case, NetworkBuilder
from tests.conformance.operators import CHANNELS, OPERATORS, Operator, Setting

SHAPE = (5, 4, CHANNELS)
MOST_COMBINATIONS = 2000


def _kind(bits: int, signed: bool, zero_point: int) -> TensorType:
    return TensorType((1, 1, 1), bits, signed, zero_point, 2.0**-4)


TYPES: tuple[tuple[TensorType, TensorType, TensorType], ...] = (
    (_kind(8, True, 13), _kind(8, False, 200), _kind(8, True, -128)),
    (_kind(8, False, 255), _kind(8, True, 5), _kind(8, False, 0)),
    (_kind(4, True, -8), _kind(5, False, 31), _kind(1, True, 0)),
)
"""Of what a pair reads, of the result of its first operator and of the second: unlike zero points, some at the ends."""

ENDS = tuple(
    _kind(bits, signed, zero_point)
    for bits, signed in product((1, 2, 8), (True, False))
    for zero_point in (_kind(bits, signed, 0).lo, _kind(bits, signed, 0).hi)
)
"""Types with the zero point at either end."""


def _row(name: str, source: TensorType, *layers: tuple[Operator, Setting, TensorType], shape: Shape = SHAPE) -> Case:
    net = NetworkBuilder(name, replace(source, shape=shape))
    x = net.start
    for operator, setting, output in layers:
        x = operator.make(net, x, setting, output)
    return net.observe(x)


def pairs(types: int, operators: Sequence[Operator] = OPERATORS, shape: Shape = SHAPE) -> Iterator[Case]:
    """Every ordered pair with number `types` of TYPES, in their usual settings."""
    source, between, last = TYPES[types]
    for first, second in product(operators, operators):
        name = f"{first.name}-{second.name}-{types}"
        yield _row(name, source, (first, first.usual, between), (second, second.usual, last), shape=shape)


def pairs_of_limits(first: Operator) -> Iterator[Case]:
    """`first` before and after every operator, one of the two with one of its limits."""
    for second in OPERATORS:
        for types, (source, between, last) in enumerate(TYPES):
            for number, setting in enumerate(first.one_at_a_time()):
                name = f"{first.name}-{number}-{second.name}-{types}"
                yield _row(name, source, (first, setting, between), (second, second.usual, last))
                name = f"{second.name}-{first.name}-{number}-{types}"
                yield _row(name, source, (second, second.usual, between), (first, setting, last))


def limits(operator: Operator, shape: Shape = SHAPE) -> Iterator[Case]:
    """Every limit of every field of an operator, and of the types that it reads and writes."""
    source, output, _ = TYPES[0]
    for number, setting in enumerate(operator.one_at_a_time()):
        yield _row(f"{operator.name}-{number}", source, (operator, setting, output), shape=shape)
    for number, kind in enumerate(ENDS):
        yield _row(f"{operator.name}-reads-{number}", kind, (operator, operator.usual, output), shape=shape)
        yield _row(f"{operator.name}-writes-{number}", source, (operator, operator.usual, kind), shape=shape)


def sums_at_the_ends(operator: Operator) -> Iterator[Case]:
    """Accumulators that reach both ends of int32, with every requantization and with weights of 0 as well."""
    source, output, _ = TYPES[0]
    for rounding in operator.fields["requantize"]:
        for weights in ("zeros", "ends"):
            setting = {**operator.usual, "bias": "ends", "requantize": rounding, "weights": weights}
            yield _row(f"{operator.name}-ends-{weights}-{rounding}", source, (operator, setting, output))


def whole_products(operator: Operator) -> Iterator[Case]:
    """All combinations of an operator's limits, or of many about `MOST_COMBINATIONS`; with types by turns."""
    step = max(1, prod(map(len, operator.fields.values())) // MOST_COMBINATIONS) | 1
    for number, setting in islice(enumerate(operator.every()), None, None, step):
        source, output, last = TYPES[number % len(TYPES)]
        yield _row(f"{operator.name}-all-{number}", source, (operator, setting, last if number % 2 else output))
