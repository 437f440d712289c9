"""Publishes pictures: of each camera from time to time, and of what an event is about.

The worker leaves a reference to a frame that is due; another thread encodes and hands over. If it is slow, older
pictures are replaced by newer ones. A picture is no measurement: without a connection it is dropped, and counted.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from edgemeta.daemon.capture.large_pictures import LargePictures
from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.config.snapshots import SnapshotsConfig
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.messages.channels import CROP, SNAPSHOT, Channel
from edgemeta.daemon.messages.records import Fields
from edgemeta.daemon.metrics.counters import FrameCounters
from edgemeta.daemon.mqtt.limits import BrokerLimits
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.pictures.drawing import with_boxes
from edgemeta.daemon.pictures.jpeg import LEAST_SIDE, fitted, scaled
from edgemeta.daemon.pictures.subjects import Subjects
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.rate_limiter import RateLimiter
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

EVENTS_PER_SECOND, BURST_NS = 1, 3 * NS
"""Pictures of events of one camera: on average, and the time for which unused ones are kept."""

BETTER_EVERY_NS = NS
"""Of objects that are kept already a better large picture is asked for so often at most: each must be decoded."""

PACKET = 128
"""Bytes of a packet besides topic and payload, at most."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that is due. objects: what is drawn into it."""

    channel: Channel
    camera: str
    pixels: Pixels
    objects: list[Fields]
    keys: SnapshotsConfig


class Snapshots:
    """Makes and publishes the pictures of all cameras. Follows the connections of the link, in its thread.

    keys_of: what the config says about a camera now. counters: of each camera. large_of: where its pictures come from,
    if not from what is classified.
    """

    def __init__(
        self,
        keys_of: Callable[[str], SnapshotsConfig],
        publisher: Publisher,
        counters: Mapping[str, FrameCounters],
        on_fatal: Callable[[BaseException], None],
        large_of: Callable[[str], LargePictures | None] = lambda _: None,
    ) -> None:
        self._keys_of = keys_of
        self._large_of = large_of
        self._asked_ns = dict.fromkeys(counters, 0)
        self._seeing = threading.Lock()
        self._publisher = publisher
        self._counters = counters
        self._limits: BrokerLimits | None = None
        self._due_ns: dict[str, int] = {}
        self._subjects = {camera: Subjects() for camera in counters}
        self._bursts = {camera: RateLimiter(EVENTS_PER_SECOND, BURST_NS) for camera in counters}
        self._waiting: dict[tuple[str, str], Picture] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._too_large: set[tuple[str, str]] = set()
        self._started = False
        self._thread = guarded_thread("snapshots", self._run, on_fatal)

    def offer(self, captured: CapturedFrame, result: FrameResult) -> None:
        """Take the pictures of a classified frame that are due. The worker's thread calls; it never waits for long."""
        keys, camera, now = self._keys_of(captured.camera), captured.camera, captured.frame.captured_ns
        if not keys.events:
            self._subjects[camera].forget()
            if keys.interval is None:
                return
        due = keys.interval is not None and self._is_due(camera, now, round(keys.interval * NS))
        large = self._large_of(camera)
        if large is not None:
            large.start()
        if not (due or keys.events):
            return
        make = partial(self._make, captured, result, keys, due)
        is_asked = large is not None and (due or self._is_worth_asking(camera, now, result))
        if large is None or (is_asked and not large.ask(make)):
            make(None)

    def _is_worth_asking(self, camera: str, now: int, result: FrameResult) -> bool:
        """Whether a large picture is needed: for an event, for an object without one, or a better one after a while."""
        needed = bool(result.updates.events) or self._subjects[camera].lacks(result.best_of)
        if needed or (result.best_of and now - self._asked_ns[camera] >= BETTER_EVERY_NS):
            self._asked_ns[camera] = now
            return True
        return False

    def _make(
        self, captured: CapturedFrame, result: FrameResult, keys: SnapshotsConfig, due: bool, large: Pixels | None
    ) -> None:
        """Take the pictures of a frame, from a large picture of the same moment where there is one."""
        camera, now, small = captured.camera, captured.frame.captured_ns, captured.frame.pixels
        pixels = small if large is None else large
        if due:
            objects = list(result.fields["objects"] or ()) if keys.boxes else []
            self._take(Picture(SNAPSHOT, camera, pixels, objects, keys))
        if keys.events:
            with self._seeing:
                subject = self._subjects[camera].see(pixels, result, small.shape)
            if subject is not None and not self._bursts[camera].wait_ns(now):
                self._bursts[camera].take(now)
                self._counters[camera].pictures_due += 1
                self._take(Picture(CROP, camera, subject, [], keys))

    def stop(self, timeout: float) -> None:
        """Stop; what waits is dropped."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._started:
            self._thread.join(timeout)

    def connected(self, subscriber: object, limits: BrokerLimits) -> None:
        """A connection was accepted, by a broker with these limits."""
        self._limits = limits

    def poll(self, subscriber: object) -> None:
        """Nothing is to be done from time to time."""

    def disconnected(self, subscriber: object) -> None:
        """The connection has ended."""
        self._limits = None

    def _is_due(self, camera: str, now: int, interval_ns: int) -> bool:
        """Whether a camera's picture is due, which is then counted; due times are an interval apart."""
        due = self._due_ns.get(camera, now)
        if now < due <= now + interval_ns:  # later: the interval has become shorter
            return False
        self._due_ns[camera] = (due if now - interval_ns < due <= now else now) + interval_ns
        self._counters[camera].pictures_due += 1
        return True

    def _take(self, picture: Picture) -> None:
        if self._limits is None:
            return
        with self._changed:
            self._waiting[picture.camera, picture.channel.name] = picture
            self._changed.notify()
        if not self._started:
            self._started = True
            self._thread.start()

    def _run(self) -> None:
        while self._publish_next():
            pass

    def _publish_next(self) -> bool:
        """Wait for a picture and publish it; False to stop. No picture is referred to while the next is awaited."""
        picture = self._next()
        if picture is not None:
            self._publish(picture)
        return picture is not None

    def _next(self) -> Picture | None:
        """Wait for a picture; None to stop."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            return None if self._stopping else self._waiting.pop(next(iter(self._waiting)))

    def _publish(self, picture: Picture) -> None:
        limits, keys = self._limits, picture.keys
        if limits is None:
            return
        pixels = scaled(picture.pixels, keys.max_side)
        if picture.objects:
            pixels = with_boxes(pixels, picture.objects)
        empty = self._publisher.picture(picture.channel, b"", picture.camera, keys.retain)
        most = keys.max_bytes
        if limits.largest_packet is not None:
            most = min(most, limits.largest_packet - len(empty.topic.encode()) - PACKET)
        jpeg = fitted(pixels, most, keys.quality)
        key = picture.camera, picture.channel.name
        if jpeg is not None:
            self._too_large.discard(key)
            self._publisher.send(self._publisher.picture(picture.channel, jpeg, picture.camera, keys.retain))
        elif key not in self._too_large:
            self._too_large.add(key)
            text = "camera %s: pictures on %s are left out: they have more than %d bytes even at %d pixels"
            log.warning(text, picture.camera, empty.topic, max(0, most), LEAST_SIDE, extra={"camera": picture.camera})
