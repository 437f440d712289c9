"""Addresses of sources as the config has them: devices, paths and URLs, and how they are shown."""

import re
from pathlib import Path
from urllib.parse import unquote

IMAGE_SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


def is_number(address: str) -> bool:
    """Tell whether an address is the bare number of a V4L2 device."""
    return address.isascii() and address.isdecimal()


def path_of(address: str) -> Path:
    """Take the path out of a plain path, file:///a%20b (percent-coded), image:///a/b or video:///a/b."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    return Path(unquote(rest) if scheme == "file" else rest)


def without_password(address: str) -> str:
    """Return the address as it may be shown: passwords in it, also those of a query, become three stars.

    What only may be a password is starred, too: rather too much than too little.
    """
    starred = re.sub(r"://([^:@/?#]*):.*@", r"://\1:***@", address)
    key = r"[^=&\s]*(?:pass|pwd|pw|token|secret|key|auth)[^=&\s]*"
    return re.sub(rf"(?i)([?&\s]{key}=)(?:\"[^\"]*\"|'[^']*'|[^&#\s]*)", r"\1***", starred)


def address_from(address: str, folder: Path) -> str:
    """Return the address with a relative path meant from `folder`; URLs and device numbers stay as they are."""
    return address if is_number(address) or "://" in address else str(folder / address)
