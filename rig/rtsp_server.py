"""An RTSP camera, rtsp://HOST:PORT/cam: run by the system's Python, which has GStreamer's bindings.

rtsp_server.py HOST PORT WIDTH HEIGHT FRAMES_PER_SECOND shared|own [stdin]

stdin: frames are read there, as gray bytes, instead of drawn here; they are sent to the first client's stream.
shared: all clients get one encoder's stream; own: each its own. Where clients come while others go, GStreamer 1.22
crashes on a shared one (gst_rtsp_media_get_rates: assertion failed).
"""

import sys
import threading

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - after the versions are chosen

host, port, width, height, rate, clients, *drawn = sys.argv[1:]
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address(host)
server.set_service(port)
factory = GstRtspServer.RTSPMediaFactory()
caps = f"video/x-raw,width={width},height={height},framerate={rate}/1"
frames = (
    f"appsrc name=frames is-live=true do-timestamp=true format=time caps={caps},format=GRAY8 "
    "! videoconvert ! video/x-raw,format=I420"
    if drawn
    else f"videotestsrc is-live=true ! {caps}"
)
factory.set_launch(
    f"( {frames} ! x264enc tune=zerolatency speed-preset=ultrafast key-int-max={rate} ! rtph264pay name=pay0 pt=96 )"
)
factory.set_shared(clients == "shared")


def feed(_factory: object, media: "GstRtspServer.RTSPMedia") -> None:
    """Give the frames of standard input to the stream."""
    source = media.get_element().get_by_name_recurse_up("frames")

    def push() -> None:
        while frame := sys.stdin.buffer.read(int(width) * int(height)):
            source.emit("push-buffer", Gst.Buffer.new_wrapped(frame))

    threading.Thread(target=push, daemon=True).start()


if drawn:
    factory.connect("media-configure", feed)
server.get_mount_points().add_factory("/cam", factory)
server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
