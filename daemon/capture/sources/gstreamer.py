"""GStreamer pipelines and CSI cameras: "gstreamer://v4l2src device=/dev/video0 ! jpegdec", "csi://0?width=1280"."""

import time
from urllib.parse import parse_qsl

from edgemeta.daemon.capture.source import Frame, SourceError, SourceSilentError, SourceSpec
from edgemeta.daemon.capture.sources.gst_process import GstProcess
from edgemeta.daemon.capture.sources.reader_thread import MAX_HANGING
from edgemeta.daemon.capture.sources.registry import parts_of
from edgemeta.daemon.config.secrets import SecretError
from edgemeta.daemon.config.source_address import Target, is_number

SENSOR_FPS = 30.0
CSI_KEYS = {"width": (1280, 16384), "height": (720, 16384), "flip": (0, 7)}
"""Keys of a CSI address: default and largest value. `flip` is nvvidconv's flip-method, 2 for upside down."""


class GstreamerSource:
    """A pipeline in a process of its own. The pipeline sets the frame rate; a CSI camera is asked for `fps`."""

    live = True
    interval_ns = 0

    def __init__(self, spec: SourceSpec) -> None:
        self._name, *_ = parse(spec)
        self._spec = spec
        self._timeout = spec.timeout
        self._running: GstProcess | None = None
        self._abandoned: list[GstProcess] = []

    def open(self) -> None:
        """Start the pipeline. Raises SourceError while too many of the earlier ones cannot be killed."""
        self._abandoned = [each for each in self._abandoned if each.running]
        if len(self._abandoned) >= MAX_HANGING:
            raise SourceError(f"{self._name} hangs in {len(self._abandoned)} processes that cannot be killed")
        self._running = GstProcess(*parse(self._spec))

    def read(self) -> Frame:
        """Return the next frame. Raises SourceError on failure, or after the timeout."""
        if self._running is None:
            raise SourceError(f"{self._name} is not open")
        pixels = self._running.read(self._timeout)
        if pixels is None:
            raise SourceSilentError(f"{self._name} gave no frame for {self._timeout:g} s")
        return Frame(pixels, time.monotonic_ns())

    def close(self) -> None:
        """Stop the process; one that cannot be killed is abandoned."""
        if self._running is not None:
            self._running.stop()
            self._abandoned.append(self._running)
            self._running = None


def parse(spec: SourceSpec) -> tuple[str, list[str], Target]:
    """Return the source's name in errors, its pipeline as words, and what cleans its messages. Raises SourceError."""
    if spec.address.scheme == "csi":
        return _csi(spec)
    if spec.fps is not None:
        raise SourceError("a GStreamer pipeline sets its own frame rate, expected no `fps`")
    try:
        words, target = spec.address.pipeline()
    except SecretError as error:
        raise SourceError(str(error)) from error
    except ValueError as error:
        raise SourceError("the GStreamer pipeline has an open quotation mark, expected a closed one") from error
    if not words or "\0" in spec.address.rest:
        raise SourceError("the GStreamer pipeline is empty, expected for example gstreamer://videotestsrc")
    return f"pipeline {spec.address}", words, target


def _csi(spec: SourceSpec) -> tuple[str, list[str], Target]:
    """Return the pipeline of a Jetson's CSI camera: Argus captures, the converter engine copies to memory."""
    parts = parts_of(spec.address)
    if parts.path or not is_number(parts.netloc):
        raise SourceError(f"source {spec.address} is not a CSI camera, expected for example csi://0")
    if spec.fps == 0:
        raise SourceError(f"source {spec.address} sets its own frame rate, expected `fps` above 0 or none")
    values = {key: default for key, (default, _) in CSI_KEYS.items()}
    for key, value in parse_qsl(parts.query, keep_blank_values=True):
        if key not in CSI_KEYS:
            raise SourceError(f"source {spec.address} has the unknown key {key!r}, expected {', '.join(CSI_KEYS)}")
        largest = CSI_KEYS[key][1]
        if not (is_number(value) and int(value[:6]) <= largest):
            raise SourceError(f"source {spec.address} has the {key} {value!r}, expected 0 to {largest}")
        values[key] = int(value)
    rate = round(1000 * (SENSOR_FPS if spec.fps is None else spec.fps))
    size = f"width={values['width']},height={values['height']}"
    pipeline = (
        f"nvarguscamerasrc sensor-id={parts.netloc} ! video/x-raw(memory:NVMM),{size},framerate={rate}/1000 "
        f"! nvvidconv flip-method={values['flip']} ! video/x-raw,format=BGRx"
    )
    return f"camera {spec.address}", pipeline.split(), spec.target()
