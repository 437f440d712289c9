"""Waiting for something that must happen, and what is said where it does not."""

import socket
import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds after which something that must happen counts as not happening."""


class RigError(Exception):
    """A part of the rig that cannot run here, or something that should have happened and did not, in one sentence."""


def until(condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
    """Wait until something is so. Raises RigError where it does not become so."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RigError(f"waited {seconds:g} s for {what}")
        time.sleep(0.01)


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
