"""A program: runs one GStreamer pipeline and writes its frames to standard output, its error to standard error.

Standard input has the pipeline: its length in bytes, a line end, its words, each ended by a NUL. Arguments, as
gst-launch-1.0 takes them, can be read by every user of the machine; a pipeline may contain a password. Each frame is
width and height (unsigned, 32 bits, little-endian) and its rows, B, G, R, each padded to a multiple of 4 bytes.

It imports nothing of this package and calls libgstreamer by ctypes, so it starts in a twentieth of a second with any
Python, and needs no bindings.
"""

import ctypes
import os
import struct
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

PLAYING, STOPPED = 4, 1
"""GST_STATE_PLAYING, GST_STATE_NULL."""

ERROR, READ = 2, 1
"""GST_MESSAGE_ERROR, GST_MAP_READ."""

WAIT_NS = 100_000_000
"""Nanoseconds after which a missing frame lets the program look for an error, a signal, or its parent's end."""

SINK = ("!", "videoconvert", "!", "video/x-raw,format=BGR", "!", "appsink", "name=edgemeta", "sync=false")
LIBRARIES = ("libgstreamer-1.0.so.0", "libgstapp-1.0.so.0")


class GError(ctypes.Structure):
    """GLib's error."""

    _fields_ = (("domain", c_uint32), ("code", c_int), ("message", c_char_p))


class MapInfo(ctypes.Structure):
    """GstMapInfo."""

    _fields_ = (
        *(("memory", c_void_p), ("flags", c_int), ("data", c_void_p), ("size", c_size_t), ("maxsize", c_size_t)),
        *(("user_data", c_void_p * 4), ("reserved", c_void_p * 4)),
    )


class PipelineError(Exception):
    """GStreamer's own message."""


class Pipeline:
    """A running pipeline that ends in an appsink."""

    def __init__(self, words: list[bytes]) -> None:
        try:
            self._gst, self._app = (ctypes.CDLL(name) for name in LIBRARIES)
        except OSError as error:
            raise PipelineError(f"{error} (Debian package gstreamer1.0-plugins-base)") from error
        for name in ("gst_parse_launchv", "gst_bin_get_by_name", "gst_element_get_bus", "gst_bus_pop_filtered"):
            getattr(self._gst, name).restype = c_void_p
        for name in ("gst_sample_get_caps", "gst_sample_get_buffer", "gst_caps_get_structure"):
            getattr(self._gst, name).restype = c_void_p
        self._app.gst_app_sink_try_pull_sample.restype = c_void_p
        self._check(self._gst.gst_init_check, None, None)
        words = [*words, *(word.encode() for word in (*SINK, "max-buffers=1"))]
        self._pipeline = c_void_p(self._check(self._gst.gst_parse_launchv, (c_char_p * (len(words) + 1))(*words, None)))
        self._sink = c_void_p(self._gst.gst_bin_get_by_name(self._pipeline, b"edgemeta"))
        self._bus = c_void_p(self._gst.gst_element_get_bus(self._pipeline))
        self._gst.gst_element_set_state(self._pipeline, PLAYING)

    def write_next(self, frames: int) -> bool:
        """Write the next frame, if there is one soon; False at the end. Raises PipelineError."""
        sample = c_void_p(self._app.gst_app_sink_try_pull_sample(self._sink, c_uint64(WAIT_NS)))
        if sample:
            self._write(sample, frames)
            self._gst.gst_mini_object_unref(sample)
        if message := c_void_p(self._gst.gst_bus_pop_filtered(self._bus, ERROR)):
            found = POINTER(GError)()
            self._gst.gst_message_parse_error(message, byref(found), None)
            raise PipelineError(found.contents.message.decode(errors="replace"))
        return bool(sample) or not self._app.gst_app_sink_is_eos(self._sink)

    def stop(self) -> None:
        """Stop it, which releases its devices."""
        self._gst.gst_element_set_state(self._pipeline, STOPPED)

    def _write(self, sample: c_void_p, frames: int) -> None:
        structure = c_void_p(self._gst.gst_caps_get_structure(c_void_p(self._gst.gst_sample_get_caps(sample)), 0))
        width, height, info = c_int(), c_int(), MapInfo()
        for name, value in ((b"width", width), (b"height", height)):
            self._gst.gst_structure_get_int(structure, name, byref(value))
        buffer = c_void_p(self._gst.gst_sample_get_buffer(sample))
        if not self._gst.gst_buffer_map(buffer, byref(info), READ):
            raise PipelineError("a frame cannot be read")
        if info.size != height.value * (-(-3 * width.value // 4) * 4):
            raise PipelineError(f"a frame of {width.value}x{height.value} pixels has {info.size} bytes")
        _write_all(frames, struct.pack("<II", width.value, height.value))
        _write_all(frames, memoryview((ctypes.c_char * info.size).from_address(info.data)))
        self._gst.gst_buffer_unmap(buffer, byref(info))

    def _check(self, call: "ctypes._FuncPointer", *arguments: object) -> int:
        """Call a function whose last argument is a GError. Raises PipelineError."""
        error = POINTER(GError)()
        result = call(*arguments, byref(error))
        if error or not result:
            raise PipelineError(error.contents.message.decode(errors="replace") if error else "it cannot be started")
        return int(result)


def _write_all(descriptor: int, content: bytes | memoryview) -> None:
    left = memoryview(content).cast("B")
    while left:
        left = left[os.write(descriptor, left) :]


def main() -> None:
    """Run the pipeline until its end, an error, SIGINT, or the end of its parent, whose id is the argument."""
    parent = int(sys.argv[1])
    words = sys.stdin.buffer.read(int(sys.stdin.buffer.readline())).split(b"\0")[:-1]
    frames, errors, nothing = os.dup(1), os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)  # plugins write to both
    os.dup2(nothing, 2)
    try:
        pipeline = Pipeline(words)
        try:
            while pipeline.write_next(frames) and os.getppid() == parent:
                pass
        finally:
            pipeline.stop()
    except PipelineError as error:
        os.write(errors, str(error).encode(errors="replace"))
    except (KeyboardInterrupt, BrokenPipeError):
        pass


if __name__ == "__main__":
    main()
