"""Philox gives the words of its authors; a word depends on its place alone."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.simulate.definition import philox, random_words  # noqa: E402


def test_the_known_answers_of_its_authors() -> None:
    """From the file kat_vectors of Random123, philox4x32 with ten rounds."""
    counters = [[0] * 4, [0xFFFFFFFF] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]]
    keys = ((0, 0), (0xFFFFFFFF, 0xFFFFFFFF), (0xA4093822, 0x299F31D0))
    expected = (
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    )
    for counter, key, words in zip(counters, keys, expected, strict=True):
        found = philox(tuple(torch.tensor([word]) for word in counter), key)
        assert " ".join(f"{int(word):08x}" for word in found) == words


def test_a_word_depends_on_its_place_alone() -> None:
    places = torch.arange(1000)
    whole = random_words(places, 5, 7, 3)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(1))
    assert torch.equal(random_words(places[order].reshape(10, 100), 5, 7, 3).reshape(-1), whole[order])
    assert len(whole.unique()) == 1000


def test_seed_step_tensor_and_great_places_all_count() -> None:
    places = torch.arange(64)
    kinds = [
        random_words(places, 1, 0, 0),
        random_words(places, 1 << 40, 0, 0),
        random_words(places, 0, 1, 0),
        random_words(places, 0, 0, 1),
        random_words(places + (1 << 40), 0, 0, 0),
        random_words(places, 0, 0, 0),
    ]
    assert len(torch.stack(kinds).unique()) == 6 * 64
