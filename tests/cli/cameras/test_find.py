"""Cameras are found by WS-Discovery, here on loopback."""

import ipaddress

import pytest

from edgemeta.cli.cameras.errors import OnvifError
from tests.cli.cameras.onvif_camera import answering_to_discovery

pytest.importorskip("wsdiscovery", reason="no wsdiscovery (extra `onvif`)")

import wsdiscovery.threaded

from edgemeta.cli.cameras.find import Found, at, find


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        wsdiscovery.threaded,
        "_getNetworkAddrs",
        lambda family: [ipaddress.ip_address("127.0.0.1")] if family == 2 else [],
    )


def test_a_camera_is_found_with_its_name() -> None:
    with answering_to_discovery("127.0.0.1:8899"):
        assert find(2.0) == [Found("127.0.0.1", 8899, "Front Door", "IPC-1")]


def test_nobody_answers() -> None:
    assert find(0.2) == []


@pytest.mark.parametrize(("text", "found"), [("cam", ("cam", 80)), ("[::1]:8080", ("::1", 8080))])
def test_a_camera_is_named(text: str, found: tuple[str, int]) -> None:
    assert at(text) == Found(*found)


@pytest.mark.parametrize("text", ["", "http://cam", "cam/path", "cam:99999", "user:geheim@cam", "[::1"])
def test_what_is_no_address_is_one_sentence(text: str) -> None:
    with pytest.raises(OnvifError, match="expected HOST or HOST:PORT"):
        at(text)
