"""A fixed split of a data set in two parts, the same on every machine and in every order of its pictures."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.data.copies import picture_digests
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import DataError

SPLIT_SEED = 1
"""That of the part which shipped recipes, incremental quantization and searches hold out: the same pictures, so that a
network is judged by what it was not trained on."""


def split(dataset: Dataset, share: float, seed: int) -> tuple[Dataset, Dataset]:
    """Split into the rest and a part that has about `share` of each class, both in the order of the data set.

    Pictures with the same pixels stay together, so that no copy of a training picture is among those that measure.
    `choose` states the rule; pictures are told apart by name, where they have one, else by pixels. Raises DataError.
    """
    part = held_out(dataset, share, seed)
    return dataset.take(~part), dataset.take(part)


def held_out(dataset: Dataset, share: float, seed: int) -> NDArray[np.bool_]:
    """Which pictures `split` puts in the part, bool [N]. Raises DataError."""
    copies = picture_digests(dataset.x)
    return choose(dataset.y, dataset.names or copies, share, seed, copies)


def choose(
    y: NDArray[np.integer], keys: Sequence[str], share: float, seed: int, copies: Sequence[str] | None = None
) -> NDArray[np.bool_]:
    """Which pictures are in the part: bool [N], the same for the same keys and classes in any order.

    A class of n pictures gives floor(share n + 1/2), at least 1 and at most n - 1; a single picture stays in the rest.
    They are those with the smallest SHA-256 of "seed/key". copies: pictures of a class with an equal entry are put in
    the same part, with the smallest key of them, and the part may become greater by them; only where a class consists
    of copies of one picture they are separated. share: above 0, below 1. Raises DataError.
    """
    if not 0 < share < 1:
        raise DataError(f"the share of the validation part is {share:g}, expected more than 0 and less than 1")
    part = np.zeros(len(y), dtype=bool)
    alike = keys if copies is None else copies
    for label in np.unique(y):
        members = np.flatnonzero(y == label).tolist()
        smallest: dict[str, str] = {}
        for i in members:
            smallest[alike[i]] = min(smallest.get(alike[i], keys[i]), keys[i])
        groups = {i: (_rank(seed, smallest[alike[i]]), alike[i]) for i in members}
        members.sort(key=lambda i: (groups[i], keys[i]))
        count = len(members)
        taken = min(max(1, int(share * count + 0.5)), count - 1)
        end = taken
        while 0 < end < count and groups[members[end]] == groups[members[end - 1]]:
            end += 1
        if end == count:  # the last group would fill the part: it stays in the rest
            end = taken
            while end > 0 and groups[members[end]] == groups[members[end - 1]]:
                end -= 1
        part[members[: end or taken]] = True
    return part


def _rank(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}/{key}".encode(errors="surrogateescape")).hexdigest()
