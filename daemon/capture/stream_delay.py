"""How much later than usual frames arrive, by the timestamps of their stream.

A frame that was captured at the time s of the camera's clock arrives at the time a of ours. a - s is the difference of
the clocks plus the time that it took; its least value over the stream is the base, and what a frame's a - s exceeds the
base by is its delay: the time that it waited in the buffers of the camera, the network or this device.

The rates of two clocks differ by up to `DRIFT`. While frames come in time the base rises by that much, and each frame
that comes sooner takes it down again; so it follows the drift. While they are late it rises at the rate that was
measured before, so that a delay that lasts for hours stays.
"""

from edgemeta.daemon.runtime.clock import NS

DRIFT = 200e-6
"""Greatest difference of the rates of two crystals."""

LATE_NS = NS // 2
"""Delay from which on a frame is not in time."""

MEASURED_NS = 300 * NS
"""How long frames must come in time until the drift counts as known, and how often it is measured anew."""

AHEAD_NS = 10 * NS
"""A stream whose time goes back, or forward by so much more than ours, begins anew."""

IMPOSSIBLE_NS = 120 * NS
"""No buffers hold that much: the stream's time runs at another rate than ours, so it says nothing."""


class StreamDelay:
    """The delay of the frames of one camera in ns, also over several openings of its source."""

    def __init__(self) -> None:
        self._rate = 0.0
        self.is_known = True
        """Whether the stream's time is of use."""
        self.begin()

    def begin(self) -> None:
        """The source was opened: its stream's time begins anew. The drift of its clock stays known."""
        self._arrived_ns: int | None = None
        self._stream_ns = 0
        self._begin_at(0, 0)

    def _begin_at(self, arrived_ns: int, offset: float) -> None:
        """Take a frame for one in time, as nothing else is known."""
        self._base = float(offset)
        self._in_time_since = arrived_ns, self._base

    def add(self, arrived_ns: int, stream_ns: int) -> int:
        """Return the delay of a frame that arrived at a monotonic time and has that time in its stream."""
        first, passed = self._arrived_ns is None, arrived_ns - (self._arrived_ns or arrived_ns)
        step, offset = stream_ns - self._stream_ns, arrived_ns - stream_ns
        self._arrived_ns, self._stream_ns = arrived_ns, stream_ns
        if first or step <= 0 or step > passed + AHEAD_NS:
            self._begin_at(arrived_ns, offset)
        self.is_known = self.is_known and offset - self._base < IMPOSSIBLE_NS
        if not self.is_known:
            return 0
        in_time = offset - self._base < LATE_NS
        self._base = min(self._base + passed * (DRIFT if in_time else self._rate), float(offset))
        self._measure_drift(arrived_ns, in_time)
        return round(offset - self._base)

    def _measure_drift(self, arrived_ns: int, in_time: bool) -> None:
        since_ns, base = self._in_time_since
        if in_time and arrived_ns - since_ns < MEASURED_NS:
            return
        if in_time:
            self._rate = max(-DRIFT, min(DRIFT, (self._base - base) / (arrived_ns - since_ns)))
        self._in_time_since = arrived_ns, self._base
