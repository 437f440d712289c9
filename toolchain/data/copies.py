"""Pictures that occur more than once, told by their pixels: within a data set, and in two that should be apart."""

import hashlib

import numpy as np
from numpy.typing import NDArray


def picture_digests(x: NDArray[np.uint8]) -> list[str]:
    """SHA-256 (hex) of the pixels of each image of x [N, H, W, C]."""
    return [hashlib.sha256(image.tobytes()).hexdigest() for image in x]


def contradictions(x: NDArray[np.uint8], y: NDArray[np.integer]) -> list[tuple[int, int]]:
    """Equal images of x [N, H, W, C] with different classes y [N]: the number of each, after that of the first one."""
    first: dict[str, int] = {}
    pairs = [(first.setdefault(digest, i), i) for i, digest in enumerate(picture_digests(x))]
    return [(one, other) for one, other in pairs if y[one] != y[other]]
