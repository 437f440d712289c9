"""Waiting for conditions, with an error on timeout; free ports."""

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT = 60.0
"""Seconds to wait for a condition, unless stated otherwise."""


class RigError(Exception):
    """A part of the rig that cannot run here, or a condition that was not met in time, in one sentence."""


def wait_until(condition: Callable[[], bool], what: str, seconds: float = TIMEOUT) -> None:
    """Wait until a condition holds; `what` describes it. Raises RigError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RigError(f"waited {seconds:g} s for {what}")
        time.sleep(0.01)


def free_port() -> int:
    """Return a free loopback port, for a server that may be stopped and restarted on it.

    It is outside of the kernel's range for outgoing connections: no other program gets it by chance, and a client that
    probes it while nothing listens cannot connect to itself. Each pytest-xdist worker has separate ports, so that no
    test uses a port on which another one expects no server. Raises RigError if every port is in use.
    """
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = range(10_000 + worker, max(first_outgoing, 30_000), workers)
    for port in random.SystemRandom().sample(own, min(100, len(own))):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RigError("no free port from 10,000 on")
