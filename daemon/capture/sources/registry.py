"""The kinds of sources: scheme of an address -> "module:attribute", imported only when chosen."""

import re
from importlib import import_module
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, unquote, urlsplit

from edgemeta.daemon.capture.source import Source, SourceError, SourceFactory, SourceSpec

SOURCES = {
    "synthetic": "edgemeta.daemon.capture.sources.synthetic.source:SyntheticSource",
    "image": "edgemeta.daemon.capture.sources.image:ImageSource",
    "video": "edgemeta.daemon.capture.sources.video:VideoSource",
    "v4l2": "edgemeta.daemon.capture.sources.v4l2:V4l2Source",
    "csi": "edgemeta.daemon.capture.sources.gstreamer:GstreamerSource",
    "gstreamer": "edgemeta.daemon.capture.sources.gstreamer:GstreamerSource",
    "rtsp": "edgemeta.daemon.capture.sources.stream:StreamSource",
    "rtsps": "edgemeta.daemon.capture.sources.stream:StreamSource",
    "http": "edgemeta.daemon.capture.sources.stream:StreamSource",
    "https": "edgemeta.daemon.capture.sources.stream:StreamSource",
}

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def kind_of(address: str) -> str:
    """Key into SOURCES for an address. Raises SourceError for a scheme that is not there.

    A bare number or a path below /dev is a V4L2 device; any other path is a folder of images or one image by its
    suffix, and a video otherwise.
    """
    if is_number(address) or address.startswith("/dev/"):
        return "v4l2"
    scheme, separator, _ = address.partition("://")
    if separator and scheme != "file":
        if scheme not in SOURCES:
            raise SourceError(f"source {address!r} has the unknown scheme {scheme!r}, expected {', '.join(SOURCES)}")
        return scheme
    path = path_of(address)
    return "image" if path.is_dir() or path.suffix.lower() in IMAGE_SUFFIXES else "video"


def is_number(address: str) -> bool:
    """Tell whether an address is the bare number of a V4L2 device."""
    return address.isascii() and address.isdecimal()


def path_of(address: str) -> Path:
    """Take the path out of a plain path, file:///a%20b (percent-coded), image:///a/b or video:///a/b."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    return Path(unquote(rest) if scheme == "file" else rest)


def make_source(spec: SourceSpec) -> Source:
    """Make the source an address asks for, opening nothing. Raises SourceError for an address it cannot understand."""
    module, _, attribute = SOURCES[kind_of(spec.address)].partition(":")
    factory = cast("SourceFactory", getattr(import_module(module), attribute))
    return factory(spec)


def without_password(address: str) -> str:
    """Return the address as it may be shown: passwords in it, also those of a query, become three stars.

    What only may be a password is starred, too: rather too much than too little.
    """
    starred = re.sub(r"://([^:@/?#]*):.*@", r"://\1:***@", address)
    key = r"[^=&\s]*(?:pass|pwd|pw|token|secret|key|auth)[^=&\s]*"
    return re.sub(rf"(?i)([?&\s]{key}=)(?:\"[^\"]*\"|'[^']*'|[^&#\s]*)", r"\1***", starred)


def parts_of(address: str) -> SplitResult:
    """Split a URL. Raises SourceError where it is none."""
    try:
        return urlsplit(address)
    except ValueError as error:  # for example a bracket that begins an IPv6 address and no end of it
        raise SourceError(f"source {address!r} is no URL ({error}), expected scheme://place?key=value") from error


def address_from(address: str, folder: Path) -> str:
    """Return the address with a relative path meant from `folder`; URLs and device numbers stay as they are."""
    return address if is_number(address) or "://" in address else str(folder / address)
