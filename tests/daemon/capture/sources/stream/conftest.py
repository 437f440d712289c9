"""Cameras of several tests."""

from collections.abc import Iterator

import pytest

from tests.daemon.capture.sources.stream.lost_camera import LostCamera


@pytest.fixture
def lost_camera(monkeypatch: pytest.MonkeyPatch) -> Iterator[LostCamera]:
    """A camera over HTTP that can fall silent and be lost."""
    monkeypatch.delenv("http_proxy", raising=False)
    made = LostCamera()
    yield made
    made.close()
