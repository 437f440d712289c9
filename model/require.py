"""Checks that proofs consist of, each raising ModelError with one sentence, and how error texts show values."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError


def shown(value: object, most: int = 60) -> str:
    """A value for an error text: its repr, on one line, truncated to `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def require(holds: bool, sentence: str) -> None:
    """Raise ModelError with the given text unless the condition holds."""
    if not holds:
        raise ModelError(sentence)


def require_between(value: float, lo: float, hi: float, what: str) -> None:
    """Require lo <= value <= hi."""
    require(lo <= value <= hi, f"{what} is {value}, expected {lo} .. {hi}")


def require_array(array: NDArray[Any], dtype: type[np.generic], shapes: tuple[tuple[int, ...], ...], what: str) -> None:
    """Require a dtype and one of the given shapes."""
    expected = " or ".join(str(list(shape)) for shape in dict.fromkeys(shapes))
    require(
        array.dtype == dtype and array.shape in shapes,
        f"{what} is {array.dtype} {list(array.shape)}, expected {np.dtype(dtype)} {expected}",
    )


def require_values(array: NDArray[Any], lo: int, hi: int, what: str) -> None:
    """Require every entry of an array [...] to lie in lo .. hi."""
    least, greatest = int(array.min()), int(array.max())
    require(
        lo <= least and greatest <= hi,
        f"{what} holds {least if least < lo else greatest}, expected values in {lo} .. {hi}",
    )


MAX_TEXT = 200
"""Characters of a name or label."""


def require_text(text: str, what: str) -> None:
    """Raise ModelError unless the text is printable, not empty and at most MAX_TEXT characters long."""
    is_fit = 1 <= len(text) <= MAX_TEXT and text.isprintable()
    require(is_fit, f"{what} is {text[:MAX_TEXT]!r}, expected 1 .. {MAX_TEXT} printable characters")
