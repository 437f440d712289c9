"""An RTSP camera, rtsp://HOST:PORT/cam: run by the system's Python, which has GStreamer's bindings.

rtsp_server.py HOST PORT WIDTH HEIGHT FRAMES_PER_SECOND shared|own

shared: all clients get one encoder's stream; own: each its own. Where clients come while others go, GStreamer 1.22
crashes on a shared one (gst_rtsp_media_get_rates: assertion failed).
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402 - after the versions are chosen

host, port, width, height, rate, clients = sys.argv[1:]
Gst.init(None)
server = GstRtspServer.RTSPServer()
server.set_address(host)
server.set_service(port)
factory = GstRtspServer.RTSPMediaFactory()
factory.set_launch(
    f"( videotestsrc is-live=true ! video/x-raw,width={width},height={height},framerate={rate}/1 "
    f"! x264enc tune=zerolatency speed-preset=ultrafast key-int-max={rate} ! rtph264pay name=pay0 pt=96 )"
)
factory.set_shared(clients == "shared")
server.get_mount_points().add_factory("/cam", factory)
server.attach(None)
print("ready", flush=True)
GLib.MainLoop().run()
