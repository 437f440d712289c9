"""Waiting for something that must happen, and what is said where it does not."""

import os
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path

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
    """Return a loopback port that nobody listens on, for a program that will, and again after it was killed.

    One that the kernel gives no outgoing connection: no program in between can take it by chance, and a client that
    probes while nobody listens cannot be connected to itself. Each pytest-xdist worker has ports of its own, so that
    no test gets a port on which another one expects silence. Raises RigError where every port is taken.
    """
    first_given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = range(10_000 + worker, max(first_given, 30_000), workers)
    for port in random.SystemRandom().sample(own, min(100, len(own))):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RigError("no free port from 10,000 on")
