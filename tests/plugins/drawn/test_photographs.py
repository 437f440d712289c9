"""Photographs that move: read from their package, a pure function of seed and number, refused in one sentence."""

import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceError
from edgemeta.daemon.capture.sources.synthetic import show_of
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.plugins.drawn import photographs
from edgemeta.plugins.drawn.photographs import PHOTOGRAPHS
from edgemeta.plugins.drawn.show import HEIGHT, WIDTH, Show

ADDRESS = SourceAddress("synthetic://?show=photographs&scene=0.2")


@pytest.fixture
def show() -> Show:
    pytest.importorskip("skimage", reason="needs scikit-image: pip install 'edgemeta[demo]'")
    return show_of(ADDRESS)


def test_each_photograph_moves_and_is_named(show: Show) -> None:
    again = show_of(ADDRESS)
    for index, photograph in enumerate(PHOTOGRAPHS):
        first, later = show.frame(6 * index).astype(int), show.frame(6 * index + 4).astype(int)
        assert first.shape == (HEIGHT, WIDTH, 3)
        assert show.truth(6 * index) == photograph.label
        assert np.abs(first - later).mean() > 4
        assert 20 < first.mean() < 235
        assert first.std() > 20
        np.testing.assert_array_equal(again.frame(6 * index + 4), later)
    assert show.truth(6 * len(PHOTOGRAPHS)) == PHOTOGRAPHS[0].label


def test_without_the_package_the_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photographs, "_PACKAGE", "no_such_package")
    with pytest.raises(SourceError, match="photographs need the package scikit-image"):
        show_of(ADDRESS)


def test_another_show_is_refused() -> None:
    with pytest.raises(SourceError, match="has the show 'films', expected drawn or photographs"):
        show_of(SourceAddress("synthetic://?show=films"))
