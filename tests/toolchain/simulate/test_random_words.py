"""Philox gives the words of its authors; a word depends on its place alone."""

import numpy as np

from edgemeta.toolchain.simulate.random_words import philox, random_words


def test_the_known_answers_of_its_authors() -> None:
    """From the file kat_vectors of Random123, philox4x32 with ten rounds."""
    counters = np.array(
        [[0] * 4, [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]], np.uint64
    ).astype(np.uint32)
    keys = ((0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0xA4093822, 0x299F31D0))
    expected = (
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    )
    for counter, key, words in zip(counters, keys, expected, strict=True):
        assert " ".join(f"{word:08x}" for word in philox(counter[np.newaxis], key)[0]) == words


def test_a_word_depends_on_its_place_alone() -> None:
    places = np.arange(1000, dtype=np.int64)
    whole = random_words(places, 5, 7, 3)
    order = np.random.default_rng(1).permutation(1000)
    np.testing.assert_array_equal(random_words(places[order].reshape(10, 100), 5, 7, 3).reshape(-1), whole[order])
    assert len(np.unique(whole)) == 1000


def test_seed_step_tensor_and_great_places_all_count() -> None:
    places = np.arange(64, dtype=np.int64)
    kinds = [
        random_words(places, 1, 0, 0),
        random_words(places, 1 << 40, 0, 0),
        random_words(places, 0, 1, 0),
        random_words(places, 0, 0, 1),
        random_words(places + (1 << 40), 0, 0, 0),
        random_words(places, 0, 0, 0),
    ]
    assert len(np.unique(np.stack(kinds))) == 6 * 64
