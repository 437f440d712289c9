"""Addresses of sources in the config: devices, paths and URLs; removes passwords for display."""

import re
from pathlib import Path
from urllib.parse import unquote


def is_number(address: str) -> bool:
    """Return whether an address is the number of a V4L2 device."""
    return address.isascii() and address.isdecimal()


def path_of(address: str) -> Path:
    """Return the path of a plain path, file:///a%20b (percent-coded), image:///a/b or video:///a/b."""
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    return Path(unquote(rest) if scheme == "file" else rest)


def without_password(address: str) -> str:
    """Return the address for display: passwords in it, also those of a query, become three stars.

    Everything that might be a password is replaced, too.
    """
    starred = re.sub(r"://([^:@/?#]*):.*@", r"://\1:***@", address)
    key = r"[^=&\s]*(?:pass|pwd|pw|token|secret|key|auth)[^=&\s]*"
    return re.sub(rf"(?i)([?&\s]{key}=)(?:\"[^\"]*\"|'[^']*'|[^&#\s]*)", r"\1***", starred)


def address_from(address: str, folder: Path) -> str:
    """Return the address with a relative path resolved against `folder`; URLs and device numbers stay as they are."""
    return address if is_number(address) or "://" in address else str(folder / address)
