"""The kinds of sources: scheme of an address -> "module:attribute", imported only when chosen."""

from importlib import import_module
from typing import cast
from urllib.parse import SplitResult, urlsplit

from edgemeta.daemon.capture.source import Source, SourceError, SourceFactory, SourceSpec
from edgemeta.daemon.config.source_address import PORTS, SourceAddress
from edgemeta.model.small_file import is_folder
from edgemeta.plugins.pictures import PICTURE_SUFFIXES

SOURCES = {
    "synthetic": "edgemeta.daemon.capture.sources.synthetic:SyntheticSource",
    "image": "edgemeta.daemon.capture.sources.image:ImageSource",
    "video": "edgemeta.daemon.capture.sources.video:VideoSource",
    "v4l2": "edgemeta.daemon.capture.sources.v4l2:V4l2Source",
    "csi": "edgemeta.daemon.capture.sources.gstreamer:GstreamerSource",
    "gstreamer": "edgemeta.daemon.capture.sources.gstreamer:GstreamerSource",
    **dict.fromkeys(PORTS, "edgemeta.daemon.capture.sources.stream.source:StreamSource"),
}


def kind_of(address: SourceAddress) -> str:
    """Return the key in SOURCES for an address. Raises SourceError for an unknown scheme.

    A bare number or a path below /dev is a V4L2 device; any other path is a folder of images or one image by its
    suffix, and a video otherwise.
    """
    if address.is_number or (not address.scheme and address.rest.startswith("/dev/")):
        return "v4l2"
    if address.scheme and address.scheme != "file":
        if address.scheme not in SOURCES:
            raise SourceError(f"source {address} has an unknown scheme, expected {', '.join(SOURCES)}")
        return address.scheme
    path = address.path
    return "image" if is_folder(path) or path.suffix.lower() in PICTURE_SUFFIXES else "video"


def make_source(spec: SourceSpec) -> Source:
    """Create the source of an address without opening it. Raises SourceError for an invalid address."""
    module, _, attribute = SOURCES[kind_of(spec.address)].partition(":")
    factory = cast("SourceFactory", getattr(import_module(module), attribute))
    return factory(spec)


def parts_of(address: SourceAddress) -> SplitResult:
    """Split the URL of a device. Raises SourceError if it is not one."""
    try:
        return urlsplit(address.written)
    except ValueError as error:  # for example an IPv6 address without its closing bracket
        raise SourceError(f"source {address} is not a URL, expected scheme://host?key=value") from error
