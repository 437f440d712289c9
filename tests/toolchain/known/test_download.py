"""Files are downloaded once, whole and unchanged, from a server on loopback; everything else is a sentence."""

import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.cli.demo.pixels import free_port
from edgemeta.model.errors import KnownNetworkError
from edgemeta.model.known.registry import RemoteFile
from edgemeta.toolchain.known import download
from edgemeta.toolchain.known.download import MIRROR, address_of, fetched, is_cached, place_of, taken
from tests.toolchain.known.file_server import Served, serving

CONTENT = np.random.default_rng(1).bytes(300_000)
PLACE = f"raw.githubusercontent.com/somebody/things/{'a' * 40}/folder/net.tflite"


def remote(content: bytes = CONTENT, size: int | None = None) -> RemoteFile:
    digest = hashlib.sha256(content).hexdigest()
    return RemoteFile(address=f"https://{PLACE}", sha256=digest, size=size or len(content))


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A mirror with the file, and an empty cache."""
    with serving() as server:
        monkeypatch.setenv(MIRROR, f"{server.address}/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        server.files[f"/{PLACE}"] = CONTENT
        yield server


def quiet(_done: int, _total: int) -> None:
    pass


def test_a_file_is_downloaded_once(served: Served) -> None:
    seen: list[tuple[int, int]] = []
    file = remote()
    assert not is_cached(file)
    assert fetched(file, lambda done, total: seen.append((done, total))).read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert fetched(file, quiet) == place_of(file)
    assert served.asked == [(f"/{PLACE}", None)]
    assert [each.name for each in place_of(file).parent.iterdir()] == ["net.tflite"]


def test_a_download_that_broke_off_goes_on(served: Served) -> None:
    served.breaks = 100_000
    with pytest.raises(KnownNetworkError, match=r"broke off after 100,000 of 300,000 bytes .* goes on from there$"):
        fetched(remote(), quiet)
    served.breaks = None
    assert fetched(remote(), quiet).read_bytes() == CONTENT
    assert served.asked[1] == (f"/{PLACE}", "bytes=100000-")


def test_a_server_without_parts_begins_again(served: Served) -> None:
    served.breaks, served.ranges = 100_000, False
    with pytest.raises(KnownNetworkError, match="broke off"):
        fetched(remote(), quiet)
    served.breaks = None
    assert fetched(remote(), quiet).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (CONTENT[:-1] + b"?", rf"is another file: it has the SHA-256 [0-9a-f]{{64}}, expected {remote().sha256}"),
        (CONTENT + b"?", r"is another file, of more than 300,000 bytes"),
    ],
    ids=["other bytes", "longer"],
)
def test_another_file_is_not_kept(content: bytes, reason: str, served: Served) -> None:
    served.files[f"/{PLACE}"] = content
    with pytest.raises(KnownNetworkError, match=reason):
        fetched(remote(), quiet)
    served.files[f"/{PLACE}"] = CONTENT
    assert fetched(remote(), quiet).read_bytes() == CONTENT
    assert served.asked[1][1] is None


def test_a_damaged_file_of_the_cache_is_downloaded_again(served: Served) -> None:
    place = fetched(remote(), quiet)
    place.write_bytes(CONTENT[:-1] + b"?")
    assert fetched(remote(), quiet).read_bytes() == CONTENT


def test_a_file_that_is_gone(served: Served) -> None:
    served.files.clear()
    with pytest.raises(
        KnownNetworkError,
        match=rf"/{PLACE}: the file is no longer there \(404 Not Found\): set EDGEMETA_MIRROR or name",
    ):
        fetched(remote(), quiet)


def test_no_network(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR, f"http://127.0.0.1:{free_port()}")
    with pytest.raises(KnownNetworkError, match=r"cannot be reached \(.*refused.*\): set EDGEMETA_MIRROR or"):
        fetched(remote(), quiet)


def test_a_full_disk(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(download.os, "fsync", full)
    with pytest.raises(KnownNetworkError, match=r"net\.tflite: cannot be written: No space left on device"):
        fetched(remote(), quiet)


def test_a_file_that_the_user_has(served: Served, tmp_path: Path) -> None:
    own = tmp_path / "downloaded (1).tflite"
    own.write_bytes(CONTENT)
    assert taken(own, remote()) == place_of(remote())
    assert fetched(remote(), quiet).name == "net.tflite"
    assert served.asked == []
    own.write_bytes(CONTENT[1:])
    with pytest.raises(KnownNetworkError, match=r"is another file, of 299,999 bytes and SHA-256 .*: expected 300,000"):
        taken(own, remote())
    with pytest.raises(KnownNetworkError, match=r"none\.tflite: cannot be read: No such file"):
        taken(tmp_path / "none.tflite", remote())


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MIRROR, raising=False)
    assert address_of(remote()) == f"https://{PLACE}"
    monkeypatch.setenv(MIRROR, "https://mirror.lan/files/")
    assert address_of(remote()) == f"https://mirror.lan/files/{PLACE}"
    monkeypatch.setenv(MIRROR, "/srv/files")
    with pytest.raises(KnownNetworkError, match="EDGEMETA_MIRROR is '/srv/files', expected an address"):
        address_of(remote())
