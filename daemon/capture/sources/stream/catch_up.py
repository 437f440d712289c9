"""Leaves out packets that a busy machine cannot decode in time, so that its pictures are fewer and not older.

Where decoding is slower than the stream, packets wait in the kernel, then at the server, and each picture is older than
the one before. So once a packet comes late and more wait behind it, none is decoded until all that waits was read and a
key frame comes. A line that is too slow looks different: nothing waits in the kernel, and nothing would be gained.
"""

import array
import fcntl
import termios

from edgemeta.daemon.capture.stream_delay import StreamDelay
from edgemeta.daemon.runtime.clock import NS

LATE_NS = NS
"""Delay of a packet from which on others may be left out."""

WAITING = 32_768
"""So many bytes in the kernel mean that packets wait; what has just come of the next one is less."""

LONGEST_GROUP_NS = 4 * NS
"""Longest time from one key frame to the next in which to leave out packets: there is no picture meanwhile."""


class CatchUp:
    """Decides for each packet of one stream. server: descriptor of the connection to it; None decodes everything."""

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._delay = StreamDelay()
        self._key_ns: int | None = None
        self._group_ns: int | None = None
        self._leaves_out = False

    def leaves_out(self, stream_ns: int | None, is_key_frame: bool, now_ns: int) -> bool:
        """Return whether a packet with this time in its stream, read now, must not be decoded."""
        if self._server is None or stream_ns is None:
            return False
        delay_ns = self._delay.add(now_ns, stream_ns)
        if is_key_frame:
            self._group_ns = None if self._key_ns is None else stream_ns - self._key_ns
            self._key_ns = stream_ns
        if self._leaves_out:
            self._leaves_out = not is_key_frame or self._others_wait
        elif delay_ns > LATE_NS and self._group_ns is not None and 0 < self._group_ns <= LONGEST_GROUP_NS:
            self._leaves_out = self._others_wait
        return self._leaves_out

    @property
    def _others_wait(self) -> bool:
        """Whether the kernel has more packets than the one that is just coming."""
        assert self._server is not None
        size = array.array("i", [0])
        fcntl.ioctl(self._server, termios.FIONREAD, size)
        return size[0] >= WAITING
