"""`edgemeta demo`: a broker, the service and a subscriber on this machine, and a view of what arrives."""

from edgemeta.cli.demo.command import demo

__all__ = ["demo"]
