"""Gets files of known networks into a cache, where each lies under its SHA-256. What has another one is not kept.

A download that broke off goes on where it ended. `EDGEMETA_MIRROR` is an address that stands for `https://` of every
file's own: with `http://mirror.lan` a file is at `http://mirror.lan/raw.githubusercontent.com/…`.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from typing import BinaryIO

from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.callbacks import Progress
from edgemeta.model.errors import KnownNetworkError
from edgemeta.model.http_file import DownloadError, download
from edgemeta.model.known.registry import RemoteFile

MIRROR = "EDGEMETA_MIRROR"
_CHUNK = 1 << 16
_HELP = "or name a file that you have with --from"


def cache_folder() -> Path:
    """Where downloaded files are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edgemeta" / "networks"


def place_of(file: RemoteFile) -> Path:
    """Where a file is in the cache."""
    return cache_folder() / file.sha256 / file.name


def is_cached(file: RemoteFile) -> bool:
    """Whether a file is in the cache, whole and unchanged."""
    place = place_of(file)
    return place.is_file() and place.stat().st_size == file.size and digest_of(place) == file.sha256


def fetched(file: RemoteFile, report: Progress) -> Path:
    """The file in the cache, downloaded if it is not there. report: called with bytes. Raises KnownNetworkError."""
    place = place_of(file)
    if is_cached(file):
        return place
    address = address_of(file)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_name(f"{place.name}.part")
        with part.open("ab") as content:
            fcntl.flock(content, fcntl.LOCK_EX)  # of two processes the second finds the file of the first
            if is_cached(file):
                return place
            if content.tell() < file.size:
                _download(address, file, content, report)
            os.fsync(content.fileno())
            _require(part, file, address)
            part.replace(place)
    except OSError as error:
        raise KnownNetworkError(f"{place}: cannot be written: {error.strerror or error}") from None
    return place


def taken(path: Path, file: RemoteFile) -> Path:
    """A file that the user has, in the cache, if it is this one. Raises KnownNetworkError."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise KnownNetworkError(f"{path}: cannot be read: {error.strerror or error}") from None
    found = hashlib.sha256(data).hexdigest()
    if found != file.sha256:
        raise KnownNetworkError(
            f"{path}: is another file, of {len(data):,} bytes and SHA-256 {found}: expected {file.size:,} bytes and "
            f"{file.sha256}, as at {file.address}"
        )
    place = place_of(file)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, data)
    except OSError as error:
        raise KnownNetworkError(f"{place}: cannot be written: {error.strerror or error}") from None
    return place


def address_of(file: RemoteFile) -> str:
    """Where a file is got: its own address, or that of the mirror. Raises KnownNetworkError."""
    mirror = os.environ.get(MIRROR, "")
    if not mirror:
        return file.address
    if not mirror.startswith(("http://", "https://")):
        raise KnownNetworkError(f"{MIRROR} is {mirror!r}, expected an address that begins with http:// or https://")
    return f"{mirror.rstrip('/')}/{file.address.removeprefix('https://')}"


def _download(address: str, file: RemoteFile, content: BinaryIO, report: Progress) -> None:
    try:
        download(address, file.size, content, report)
    except DownloadError as error:
        if error.goes_on:
            raise KnownNetworkError(f"{error}: the same command goes on from there") from None
        raise KnownNetworkError(f"{error}: set {MIRROR} {_HELP}") from None


def _require(part: Path, file: RemoteFile, address: str) -> None:
    """Raise KnownNetworkError, and delete what was downloaded, unless it is the file."""
    found = digest_of(part)
    if found != file.sha256:
        part.unlink()
        raise KnownNetworkError(
            f"{address}: is another file: it has the SHA-256 {found}, expected {file.sha256}: nothing of it is kept"
        )


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. Raises OSError."""
    with path.open("rb") as content:
        state = hashlib.sha256()
        while chunk := content.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()
