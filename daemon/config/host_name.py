"""The host of a broker: a name or an address, and what to write instead of a URL."""

import ipaddress
import re
from typing import Annotated

from pydantic import AfterValidator, Field

RULE = "a host's name or IP address, for example broker.example or 192.0.2.1"


def host_name(value: str) -> str:
    """Return a host's name or address, without anything around it. Raises ValueError with what to write instead."""
    url = re.fullmatch(r"(?:([a-z]+)://)?(?:[^/@]*@)?(\[[^\]]*\]|[^/:@]*)(?::(\d+))?(/.*)?", value)
    if value.count(":") > 1 and _is_ip(value):
        return value
    if url is None or not url[2]:
        raise ValueError(RULE)
    scheme, host, port = url[1], url[2].strip("[]"), url[3]
    if scheme in ("ws", "wss"):
        raise ValueError(f"`{host}` alone: MQTT over TCP or TLS, not over WebSocket")
    if value != host:
        tls = ", and `tls: {enabled: true}`" if scheme in ("mqtts", "ssl", "tls", "wss") else ""
        raise ValueError(f"`{host}` alone{f', and `port: {port}`' if port else ''}{tls}")
    labels = host.removesuffix(".").split(".")
    if not all(re.fullmatch(r"[\w-]{1,63}", label) for label in labels) or len(host) > 253:
        raise ValueError(RULE)
    return value


def _is_ip(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


HostName = Annotated[str, Field(min_length=1), AfterValidator(host_name)]
