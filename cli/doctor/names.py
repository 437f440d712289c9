"""Takes out of a text what tells whose machine it is: names, addresses, paths, long numbers."""

import os
import pwd
import re
import socket
from collections.abc import Iterable
from contextlib import suppress

_PATH = re.compile(r"""(?<![\w.<])~?(?:/[^\s/:;,'"()\[\]]+)+/?""")
_MAIL = re.compile(r"\S+@\S+")
_IPV4 = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w)")
_HARDWARE = re.compile(r"(?<!\w)(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}(?!\w)")
_IPV6 = re.compile(r"(?<![\w:])(?=[^:]*:[^:]*:)[0-9a-fA-F:]{2,39}(?:%\w+)?(?!\w)")
"""With two colons at least."""
_ADDRESSES = (_MAIL, _IPV4, _HARDWARE, _IPV6)
_NUMBER = re.compile(r"(?<!\w)(?=\w*\d)[0-9a-fA-F]{8}(?:-?[0-9a-fA-F]{2,4})+(?!\w)")
"""Ten hexadecimal digits or more, as serial numbers and UUIDs have."""


def own_names() -> frozenset[str]:
    """Names of this machine and of its user."""
    host = socket.gethostname()
    found = {host, host.partition(".")[0], *(os.environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER"))}
    with suppress(KeyError):  # a container's user may have no name
        found.add(pwd.getpwuid(os.getuid()).pw_name)
    return frozenset(found - {"", "localhost"})


def without_names(text: str, names: Iterable[str]) -> str:
    """The text with placeholders in place of these names and of every path, address and long number."""
    for pattern, placeholder in (
        (_PATH, "<path>"),
        *((each, "<address>") for each in _ADDRESSES),
        (_NUMBER, "<number>"),
    ):
        text = pattern.sub(placeholder, text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "<name>", text)
    return text
