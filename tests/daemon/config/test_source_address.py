"""Addresses of sources: what is shown of them, what is opened, and which are refused."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgemeta.daemon.config.source_address import AddressError, SourceAddress


def login(**keys: Any) -> Any:
    names = (f"{what}{kind}" for what in ("username", "password") for kind in ("", "_file", "_env"))
    return SimpleNamespace(**(dict.fromkeys(names) | keys))


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("rtsp://user:geheim@cam/1?x=geheim2", "rtsp://cam"),
        ("rtsp://cam:554/1", "rtsp://cam:554"),
        ("rtsp://geheim@cam/1", "rtsp://cam"),
        ("rtsp://user:ge@he:im@cam:554/1", "rtsp://cam:554"),
        ("RTSP://user:geheim@[fe80::1%eth0]:554/1", "RTSP://[fe80::1%eth0]:554"),
        ("http://cam/mjpg?user=admin&password=geheim&size=2", "http://cam"),
        ("gstreamer://rtspsrc location=rtsp://u:geheim@cam ! x", "gstreamer://rtspsrc"),
        ("gstreamer://'geheim' ! x", "gstreamer://***"),
        ("rtmp://user:geheim@host/live/geheim", "rtmp://host"),
        ("udp://@239.0.0.1:5004", "udp://239.0.0.1:5004"),
        ("clip.avi", "clip.avi"),
        ("0", "0"),
        ("file:///a%20b.avi", "file:///a%20b.avi"),
        ("v4l2:///dev/video0?width=640", "v4l2:///dev/video0"),
    ],
)
def test_only_scheme_host_and_port_of_a_url_are_shown(address: str, shown: str) -> None:
    assert str(SourceAddress(address)) == f"{SourceAddress(address)}" == shown
    assert repr(SourceAddress(address)) == f"'{shown}'"
    assert "geheim" not in repr(SourceAddress(address).target())


def test_a_path_is_shown_on_request_but_no_query() -> None:
    assert str(SourceAddress("rtsp://u:p@cam/live/1?key=x#y", show_path=True)) == "rtsp://cam/live/1"


@pytest.mark.parametrize(
    "address",
    [
        "rtsp://user:ge/heim@cam:554/1",
        "rtsp://user:ge#heim@cam:554/1",
        "rtsp://user:ge?heim@cam/1",
        "rtsp://user:123/4@cam/1",
        "rtsp://user:ge%heim@cam/1",
        "rtsp://:geheim@[::1",
        "rtsp://cam:70000/1",
        "rtsp://cam:0/1",
        "rtsp://",
        "rtsp://cam;user=admin;pwd=geheim",
        "rtsp://admin:{FRIGATE_RTSP_PASSWORD}@cam/1",
        "rtsp://admin:${CAMERA}@cam/1",
        "gstreamer://rtspsrc user-pw=${CAMERA} ! x",
        "rtsp:/user:geheim@cam/1",
        "rtsp:user:geheim@cam/1",
        "//user:geheim@cam/1",
        "user:geheim@cam/1",
        "192.0.2.1/geheim",
        "udp://user:geheim@239.0.0.1:5004",
        "udp://239.0.0.1/geheim",
        "rtmp://user:ge/heim@host/live",
    ],
)
def test_an_address_that_cannot_work_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(AddressError) as error:
        SourceAddress(address)
    assert "heim" not in str(error.value)
    assert "123" not in str(error.value)


def test_the_login_is_coded_and_put_where_it_belongs(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@s/s#%41\n")
    keys = login(username="a dmin", password_file=str(tmp_path / "password"))
    assert SourceAddress("rtsp://cam:554/1?x", keys).target().text == "rtsp://a%20dmin:p%40s%2Fs%23%2541@cam:554/1?x"
    assert SourceAddress("http://cam/?u={username}&p={password}", keys).target().text == (
        "http://cam/?u=a%20dmin&p=p%40s%2Fs%23%2541"
    )
    words, _ = SourceAddress("gstreamer://rtspsrc user-pw={password} ! 'a b'", keys).pipeline()
    assert words == ["rtspsrc", "user-pw=p@s/s#%41", "!", "a b"]


def test_messages_of_libraries_are_cleaned(tmp_path: Path) -> None:
    address = SourceAddress("rtsp://admin:g%20heim@cam:554/live/stream17?token=abcde")
    target = address.target()
    for said in (
        f"{target.text}: Connection refused",
        "rtsp://cam:554/live/stream17?token=abcde timed out",
        "Basic realm admin, g heim",
        "moved to http://other/xyz?key=1",
        "no stream17 there, abcde is wrong",
        "login admin:g%20heim@cam",
    ):
        cleaned = target.cleaned(said)
        assert not [part for part in ("admin", "heim", "stream17", "abcde", "xyz") if part in cleaned], cleaned
    assert target.cleaned("method DESCRIBE failed: 401 Unauthorized") == "method DESCRIBE failed: 401 Unauthorized"


def test_addresses_are_equal_by_their_text() -> None:
    assert SourceAddress("rtsp://cam/1") == SourceAddress("rtsp://cam/1") != SourceAddress("rtsp://cam/2")
    assert len({SourceAddress("rtsp://cam/1"), SourceAddress("rtsp://cam/1")}) == 1


def test_relative_paths_are_beside_the_config(tmp_path: Path) -> None:
    assert SourceAddress("a.avi").beside(tmp_path).path == tmp_path / "a.avi"
    assert SourceAddress("./user@host.avi").beside(tmp_path).path == tmp_path / "user@host.avi"
    assert str(SourceAddress("rtsp://cam/1").beside(tmp_path)) == "rtsp://cam"
    assert SourceAddress("file:///a%20b").path == Path("/a b")
