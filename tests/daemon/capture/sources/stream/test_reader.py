"""Which packets of a stream are left out: those that wait for a decoder that is too slow, up to a recent key frame."""

import socket
import time
from collections.abc import Iterator

import pytest

from edgemeta.daemon.capture.sources.stream.reader import WAITING, CatchUp
from edgemeta.daemon.runtime.clock import NS

FRAME_NS = NS // 10
GROUP = 20
"""Ten packets per second, a key frame every two seconds."""


class Line:
    """The near end of a connection, with bytes that wait in it."""

    def __init__(self) -> None:
        self.near, self._far = socket.socketpair()
        self._far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * WAITING)

    def fill(self) -> None:
        self._far.sendall(bytes(2 * WAITING))

    def drain(self) -> None:
        self.near.setblocking(False)
        while True:
            try:
                self.near.recv(WAITING)
            except BlockingIOError:
                return

    def close(self) -> None:
        self.near.close()
        self._far.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def decoded(catch_up: CatchUp, numbers: range, late_ns: int, group: int = GROUP) -> list[int]:
    """Numbers of the packets that are decoded of these, each read `late_ns` after its time."""
    began = time.monotonic_ns()
    return [
        number
        for number in numbers
        if not catch_up.leaves_out(number * FRAME_NS, number % group == 0, began + number * FRAME_NS + late_ns)
    ]


def test_what_waits_is_left_out_until_a_recent_key_frame(line: Line) -> None:
    catch_up = CatchUp(line.near.fileno())
    assert decoded(catch_up, range(45), 0) == list(range(45))
    line.fill()
    assert decoded(catch_up, range(45, 50), NS // 4) == list(range(45, 50))  # late, but not by much
    assert decoded(catch_up, range(50, 70), NS // 2) == [50, 51, 52]  # with a key frame at 60 that is late as well
    line.drain()
    assert decoded(catch_up, range(70, 90), 0) == list(range(80, 90))


def test_what_comes_in_one_piece_after_a_pause_is_decoded(line: Line) -> None:
    """Packets of two seconds, read within a fifth of one."""
    catch_up = CatchUp(line.near.fileno())
    decoded(catch_up, range(45), 0)
    line.fill()
    now = time.monotonic_ns() + 65 * FRAME_NS
    assert not any(catch_up.leaves_out(45 * FRAME_NS + i * FRAME_NS, False, now + i * NS // 100) for i in range(20))


def test_a_slow_line_leaves_out_nothing(line: Line) -> None:
    """Packets are late, and none waits here."""
    catch_up = CatchUp(line.near.fileno())
    decoded(catch_up, range(45), 0)
    assert decoded(catch_up, range(45, 100), 3 * NS) == list(range(45, 100))


def test_nothing_is_left_out_where_the_next_key_frame_is_far_away_or_unknown(line: Line) -> None:
    line.fill()
    far = CatchUp(line.near.fileno())
    decoded(far, range(850), 0, group=400)
    assert decoded(far, range(850, 900), NS, group=400) == list(range(850, 900))
    assert decoded(CatchUp(line.near.fileno()), range(1, 20), 2 * NS) == list(range(1, 20))


def test_nothing_is_left_out_of_a_stream_without_times_or_connection() -> None:
    assert not CatchUp(None).leaves_out(0, True, 0)
    assert not CatchUp(0).leaves_out(None, True, 0)
