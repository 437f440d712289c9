"""Links that pause between two pictures, and one that never does."""

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from edgemeta.daemon.capture.sources.stream import busy_link
from edgemeta.daemon.capture.sources.stream.busy_link import BusyLink

PICTURE = 0.1
"""Seconds between two pictures."""


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        yield near, far


@contextmanager
def dripping(pair: tuple[socket.socket, socket.socket]) -> Iterator[None]:
    """Something comes each 4 ms."""
    over = threading.Event()

    def drip() -> None:
        while not over.wait(0.004):
            pair[1].sendall(b"part")
            pair[0].recv(100)

    thread = threading.Thread(target=drip)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def said(link: BusyLink, bring: Callable[[], object] = lambda: None) -> bool:
    """What is said after some pictures; bring: what brings each of them."""
    for _ in range(24):
        bring()
        link.came(time.monotonic_ns())
        wait = min(link.look_in, PICTURE)
        time.sleep(wait)
        if not link.look_in:
            link.look()
        time.sleep(max(0.0, PICTURE - wait))
    return link.busy


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LOOKS": 16, "BUSY": 11, "FREE": 6}.items():
        monkeypatch.setattr(busy_link, name, value)


@pytest.mark.gate("3 s of a link")
def test_a_link_that_never_pauses_is_busy(pair: tuple[socket.socket, socket.socket]) -> None:
    with dripping(pair):
        assert said(BusyLink(pair[0]))


@pytest.mark.gate("3 s of a link")
def test_a_link_that_pauses_is_not_busy(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    assert not said(BusyLink(near), lambda: (far.sendall(b"picture"), near.recv(100)))


@pytest.mark.gate("5 s of a link")
def test_a_link_that_was_free_is_looked_at_less_until_it_is_busy(pair: tuple[socket.socket, socket.socket]) -> None:
    near, far = pair
    link = BusyLink(near)
    assert not said(link, lambda: (far.sendall(b"picture"), near.recv(100)))
    looks = []
    for _ in range(4):
        link.came(time.monotonic_ns())
        looks.append(link.look_in)
    assert math.inf in looks
    with dripping(pair):
        assert said(link)


def test_a_connection_that_was_closed_says_nothing() -> None:
    with socket.socket() as connection:
        link = BusyLink(connection)
    link.look()
    assert not link.busy
