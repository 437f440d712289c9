"""float32 instructions with every rounding, against exact fractions; conversions."""

from fractions import Fraction

import numpy as np
import pytest

from tests.proof.machine_code.execution.fragments import Make, words

COUNT = 1024
SUFFIXES = ("rn", "rd", "ru", "rz")


def exact(a: np.float32, b: np.float32, c: np.float32, suffix: str) -> np.float32:
    """a b + c of finite numbers, rounded once (IEEE 754)."""
    total = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    if total == 0:
        product = np.float32(-0.0) if np.signbit(a) != np.signbit(b) else np.float32(0.0)
        if Fraction(float(a)) * Fraction(float(b)) == 0 and c == 0 and np.signbit(product) == np.signbit(c):
            return product
        return np.float32(-0.0) if suffix == "rd" else np.float32(0.0)
    below, above = neighbours(total)
    if suffix == "rd" or (suffix == "rz" and total > 0):
        return below
    if suffix in ("ru", "rz"):
        return above
    if below == above:
        return below
    low, high = value(below), value(above)
    if total - low == high - total:
        return below if int(below.view(np.int32)) % 2 == 0 else above
    return below if total - low < high - total else above


def value(x: np.float32) -> Fraction:
    """An infinity stands for the number that would follow the greatest."""
    return Fraction(float(x)) if np.isfinite(x) else Fraction(int(np.sign(x)) << 128)


def neighbours(total: Fraction) -> tuple[np.float32, np.float32]:
    """The float32 at or below, and at or above."""
    with np.errstate(over="ignore"):
        x = (
            np.float32(float(total))
            if abs(total) < Fraction(1 << 128)
            else np.float32(np.inf) * (1 if total > 0 else -1)
        )
    while value(x) > total:
        x = np.nextafter(x, np.float32(-np.inf))
    while np.isfinite(above := np.nextafter(x, np.float32(np.inf))) and value(above) <= total:
        x = above
    if value(x) == total:
        return x, x
    return x, np.nextafter(x, np.float32(np.inf))


def inputs() -> np.ndarray:
    """Random numbers near each other, ties, denormals, the greatest, both zeros."""
    rng = np.random.default_rng(0)
    a = rng.integers(-(1 << 26), 1 << 26, (3, COUNT)).astype(np.float32) * np.exp2(rng.integers(-30, 30, (3, COUNT)))
    a = a.astype(np.float32)
    bits = words(3 * COUNT, 5).reshape(3, COUNT).view(np.float32)
    a[:, 1::4] = np.where(np.isfinite(bits), bits, 0)[:, 1::4]
    a[1, 2::8] = 1.0
    a[2, 3::16] = -(a[0, 3::16] * a[1, 3::16])
    a[0, 4::8] = 12582912.0
    a[2, ::64] = -0.0
    a[0, ::32] = 0.0
    return np.where(np.isfinite(a), a, np.float32(1))


@pytest.mark.parametrize(
    "architecture", ["sm_53", pytest.param("sm_87", marks=pytest.mark.gate("2 s: the same for another generation"))]
)
def test_fma_of_every_rounding(fragment: Make, architecture: str) -> None:
    body = "\n".join(
        f"out[{n * COUNT} + i] = __fmaf_{suffix}(a, b, c); out[{(n + 4) * COUNT} + i] = __fadd_{suffix}(a, c);"
        for n, suffix in enumerate(SUFFIXES)
    )
    made = fragment(
        "const float* in, float* out",
        f"int i = blockIdx.x * 128 + threadIdx.x; float a = in[i], b = in[{COUNT} + i], "
        f"c = in[{2 * COUNT} + i];\n{body}",
        architecture,
    )
    x = inputs()
    _, found = made.launch(x, np.zeros((8, COUNT), np.float32), grid=(COUNT // 128, 1, 1), block=(128, 1, 1))
    for n, suffix in enumerate(SUFFIXES):
        for kind, row in (("fma", n), ("add", n + 4)):
            b = x[1] if kind == "fma" else np.ones(COUNT, np.float32)
            expected = np.array([exact(*each, suffix) for each in zip(x[0], b, x[2], strict=True)], np.float32)
            np.testing.assert_array_equal(found[row].view(np.int32), expected.view(np.int32), f"{kind} {suffix}")


def test_conversions_to_float(fragment: Make) -> None:
    made = fragment(
        "const int* in, float* out",
        f"int i = blockIdx.x * 128 + threadIdx.x; out[i] = __int2float_rn(in[i]); out[{COUNT} + i] = "
        "__uint2float_rn((unsigned)in[i]);",
    )
    x = words(COUNT)
    x[:400] = np.arange(-200, 200) + (1 << 25)  # ties
    _, found = made.launch(x, np.zeros((2, COUNT), np.float32), grid=(COUNT // 128, 1, 1), block=(128, 1, 1))
    np.testing.assert_array_equal(found[0], x.astype(np.float64).astype(np.float32))
    np.testing.assert_array_equal(found[1], x.view(np.uint32).astype(np.float64).astype(np.float32))
