"""Tables that are lines: the same integers of every entry, or none."""

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.build import Target
from edgemeta.kernels.fpga.generate.foldings import choose_foldings, predicted
from edgemeta.kernels.fpga.generate.lines import LINE, fitting, lines_of
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.conformance.power_of_two import random_resnet8

RISING: NDArray[np.int64] = np.arange(-128, 128)


def clipped(values: "np.ndarray", lo: int, hi: int) -> "np.ndarray":
    return np.clip(np.floor(values + 0.5), lo, hi).astype(np.int64)


def assert_lines(tables: "np.ndarray", *, is_signed: bool) -> int:
    """The lines of tables [N, 256] give every entry; returns their shift."""
    found = lines_of(tables.astype(np.int8 if is_signed else np.uint8).tobytes(), is_signed=is_signed)
    assert found is not None
    a, b = np.array(found.pairs).T[:, :, np.newaxis]
    np.testing.assert_array_equal(np.clip(a * np.arange(256) + b >> found.shift, found.lo, found.hi), tables)
    assert (a >= 0).all()
    return found.shift


@pytest.mark.parametrize(
    ("table", "signed"),
    [
        (clipped(RISING * 0.37 - 11.2, -128, 127), True),
        (clipped(RISING * 1.9 + 5.01, 0, 255), False),
        (clipped(RISING * 1000.0, -128, 127), True),
        (clipped(RISING * 0.001, -128, 127), True),
        (np.full(256, 7), True),
        (np.full(256, 255), False),
        (np.where(RISING < 127, -5, 5), True),
        (np.where(RISING < -127, -128, 127), True),
    ],
)
def test_a_line_gives_every_entry(table: "np.ndarray", signed: bool) -> None:
    assert_lines(table[np.newaxis], is_signed=signed)


def test_channels_share_the_shift_and_the_clamp() -> None:
    gain = np.random.default_rng(1).uniform(0, 3, (40, 1))
    tables = clipped(RISING * gain + np.linspace(-90, 90, 40)[:, np.newaxis], -3, 120)
    assert 8 < assert_lines(tables, is_signed=True) <= 16


@pytest.mark.parametrize(
    "table",
    [
        RISING[::-1],
        np.where(RISING == 3, 4, RISING),
        np.maximum(RISING, RISING // 4),
        RISING**2 // 130,
        np.where(RISING < 0, 0, 9) + np.where(RISING < 50, 0, 9) + np.where(RISING < 60, 0, 9),
    ],
)
def test_what_is_no_rising_line_stays_a_table(table: "np.ndarray") -> None:
    tables = np.stack([RISING, table]).astype(np.int8).tobytes()
    assert lines_of(tables, is_signed=True) is None


def test_lines_take_the_place_of_tables_where_a_device_lacks_block_ram() -> None:
    """The shipped network's tables all are lines; the random one's are not, so nothing changes there."""
    network = choose_foldings(load(find("resnet8-cifar10-pot5")), 262_144)
    assert fitting(network, Target("LFE5U-45F", 43_848, 54)) is network
    small = fitting(network, Target("LFE5U-25F", 24_288, 28))
    modes = [engine.parameters.get("MODE") for engine in small.engines]
    assert modes.count(LINE) == 10
    (lut, bram36), (tables_lut, tables_bram36) = (predicted(each, is_serial=True) for each in (small, network))
    assert lut > tables_lut
    assert (bram36, tables_bram36) == (24.5, 46)
    random = choose_foldings(random_resnet8(side=8, width=4), 5000)
    none = fitting(random, Target("none", 0, 0))
    assert none.engines[1:3] == random.engines[1:3]
