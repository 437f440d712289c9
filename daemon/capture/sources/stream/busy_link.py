"""Whether the link to a camera never pauses: then the stream is faster than the link, and its frames wait somewhere.

A stream without timestamps (MJPEG over HTTP) says nothing of the age of its pictures. But on a link that is fast enough
nothing comes for a while after a picture. So the connection is looked at once, a fifth of the way to the next picture:
did data of that come already? A link on which it always did has queues before it, of seconds where the camera's system
has large buffers; how old its pictures are cannot be known here. While no look finds any, most pictures go without one.
"""

import math
import socket
import struct
import time
from collections import deque
from contextlib import suppress

from edgemeta.daemon.runtime.clock import NS

INFO_BYTES, DATA_RECEIVED = 104, 52
"""Size of `struct tcp_info` that is asked for, and where it has the milliseconds since data came
(tcpi_last_data_recv)."""

LOOK_AT, LATEST = 0.2, 0.4
"""When to look, and until when it is of use, as parts of the time between two pictures."""

TAIL, SOONEST = 0.008, 0.014
"""Seconds after a picture in which its tail may come (the kernel's clock ticks each 4 ms), and until the look at
least."""

LOOKS, BUSY, FREE, FREE_EVERY = 40, 32, 20, 4
"""Of so many looks this many find data on a link that is busy, and less than that on one that is free again. While none
does, one of so many pictures is followed by a look."""


class BusyLink:
    """Looks at one connection, which is closed by its owner."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._interval = 1.0
        self._came = -math.inf
        self._look_at = math.inf
        self._looks: deque[bool] = deque(maxlen=LOOKS)
        self._passed = 0
        self.busy = False
        """Whether the link did not pause for some time."""

    def came(self, captured_ns: int) -> None:
        """Note that a picture came at a monotonic time."""
        came = captured_ns / NS
        self._interval += (min(1.0, came - self._came) - self._interval) / 8
        self._came = came
        is_free = len(self._looks) == LOOKS and not any(self._looks)
        self._passed = (self._passed + 1) % FREE_EVERY if is_free else 0
        self._look_at = math.inf if self._passed else came + max(SOONEST, LOOK_AT * self._interval)

    @property
    def look_in(self) -> float:
        """Seconds until the next look: 0 when it is due, without end until another picture came."""
        return max(0.0, self._look_at - time.monotonic())

    def look(self) -> None:
        """Look at the connection, and decide."""
        self._look_at = math.inf
        with suppress(OSError):  # the server has closed it: the stream then ends
            info = self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
            after = time.monotonic() - self._came
            if after > LATEST * self._interval:
                return
            (silent_ms,) = struct.unpack_from("=I", info, DATA_RECEIVED)
            self._looks.append(after - silent_ms / 1000 > TAIL)
            found = sum(self._looks)
            self.busy = found >= (FREE if self.busy else BUSY)
