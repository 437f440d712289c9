"""Addresses of sources: passwords are never shown."""

import pytest

from edgemeta.daemon.config.source_address import without_password


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:geheim@cam/1?x=geheim2", "rtsp://user:***@cam/1?x=geheim2"),
        ("rtsp://cam:554/1", "rtsp://cam:554/1"),
        ("rtsp://user@cam/1", "rtsp://user@cam/1"),
        ("rtsp://user:ge@he:im@cam:554/1", "rtsp://user:***@cam:554/1"),
        ("rtsp://:geheim@[::1", "rtsp://:***@[::1"),
        ("rtsp://user:ge/he?im@cam/1", "rtsp://user:***@cam/1"),
        ("http://cam/mjpg?user=admin&password=geheim&size=2", "http://cam/mjpg?user=admin&password=***&size=2"),
        ("http://cam/mjpg?authToken=geheim#x", "http://cam/mjpg?authToken=***#x"),
        ("clip.avi", "clip.avi"),
    ],
)
def test_a_password_in_an_address_is_hidden(address: str, shown: str) -> None:
    assert without_password(address) == shown
