"""Finds cameras that speak ONVIF by WS-Discovery: a question to the multicast group of all devices of the network."""

from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from wsdiscovery import QName
from wsdiscovery.discovery import ThreadedWSDiscovery

from edgemeta.cli.cameras.errors import OnvifError

_CAMERA = QName("http://www.onvif.org/ver10/network/wsdl", "NetworkVideoTransmitter")


@dataclass(frozen=True)
class Found:
    """A camera. host, port: of its ONVIF service. name, hardware: what it calls itself, or empty."""

    host: str
    port: int
    name: str = ""
    hardware: str = ""


def at(text: str) -> Found:
    """The camera at HOST or HOST:PORT. Raises OnvifError."""
    try:
        place = urlsplit(f"//{text}")
        host, port = place.hostname, place.port or 80
    except ValueError:
        host, port = None, 0
    if host is None or place.path or place.username:
        raise OnvifError(f"{text!r} is no camera's address, expected HOST or HOST:PORT")
    return Found(host, port)


def find(seconds: float) -> list[Found]:
    """The cameras that answer within some time, by address. Raises OnvifError where the network cannot be asked."""
    discovery = ThreadedWSDiscovery()
    try:
        discovery.start()
        with closing(_Stopped(discovery)):
            services = discovery.searchServices(types=[_CAMERA], timeout=seconds)
    except OSError as error:
        raise OnvifError(f"the network cannot be searched for cameras: {error.strerror or error}") from None
    found = {each.host: each for service in services for each in _of(service)}
    return sorted(found.values(), key=lambda each: (len(each.host), each.host))


class _Stopped:
    """Stops a search when closed."""

    def __init__(self, discovery: ThreadedWSDiscovery) -> None:
        self.close = discovery.stop


def _of(service: Any) -> list[Found]:
    """The camera of an answer; none if it gives no address of IPv4 or IPv6 that can be used."""
    scopes = [urlsplit(unquote(str(scope.getValue()))).path.strip("/").split("/", 1) for scope in service.getScopes()]
    said = {pair[0]: pair[1] for pair in scopes if len(pair) == 2}
    for address in service.getXAddrs():
        try:
            place = urlsplit(address)
            host, port = place.hostname, place.port or 80
        except ValueError:  # another program's text
            continue
        if host is not None and not host.startswith("169.254."):  # what nothing else reaches
            return [Found(host, port, said.get("name", ""), said.get("hardware", ""))]
    return []
