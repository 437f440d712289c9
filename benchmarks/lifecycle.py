"""The service from start to end, under a service manager that is this program: seconds to READY, to reload, to stop.

    chrt -r 5 python benchmarks/lifecycle.py --keep      writes benchmarks/results/lifecycle.json

chrt lets it go before whatever else the machine does; without other work it can be left out.

Synthetic camera, shipped network, fastest backend, a mosquitto on loopback. Then an RTSP camera is killed and started
again: seconds until its first frame is published. Needs mosquitto and GStreamer's RTSP server (as the tests do).
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any

import paho.mqtt.client as paho
import yaml
from paho.mqtt.enums import CallbackAPIVersion
from result_file import write_json
from soak import free_port, start_broker

EDGEMETA = str(Path(sys.executable).with_name("edgemeta"))
RTSP_SERVER = Path(__file__).parent.parent / "tests" / "daemon" / "rtsp_server.py"


class Managed:
    """`edgemeta run` with a notify socket."""

    def __init__(self, config: Path, log: Path) -> None:
        name = f"@edgemeta-lifecycle-{os.getpid()}-{time.monotonic_ns()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(name.replace("@", "\0"))
        self._socket.settimeout(30)
        self._log = log
        self.began = time.monotonic()
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [EDGEMETA, "run", str(config)], env=os.environ | {"NOTIFY_SOCKET": name}, stderr=output
            )

    def hear(self, start: str) -> float:
        """Wait for a message that begins so; return the moment it came."""
        try:
            while not self._socket.recv(65536).decode().startswith(start):
                pass
        except TimeoutError:
            sys.exit(f"no {start} within 30 s; the service's log:\n{self._log.read_text('utf-8')}")
        return time.monotonic()

    @property
    def cpu(self) -> float:
        """Seconds of CPU it used so far: what a start costs where the machine has nothing else to do."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def reload(self) -> float:
        """Return the seconds from SIGHUP to READY=1."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGHUP)
        self.hear("RELOADING=1")
        return self.hear("READY=1") - began

    def stop(self) -> float:
        """Return the seconds from SIGTERM to the end."""
        began = time.monotonic()
        self.process.terminate()
        self.process.wait(30)
        self._socket.close()
        return time.monotonic() - began


class Frames:
    """The moments at which frame messages come."""

    def __init__(self, port: int) -> None:
        self.moments: list[float] = []
        self._changed = threading.Condition()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe("edgemeta/bench/+/frame")
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _on_message(self, *_: object) -> None:
        with self._changed:
            self.moments.append(time.monotonic())
            self._changed.notify_all()

    def wait(self, more: int) -> float:
        """Wait for so many more; return when the last of them came."""
        with self._changed:
            number = len(self.moments) + more
            if not self._changed.wait_for(lambda: len(self.moments) >= number, 30):
                sys.exit("no frames within 30 s")
            return self.moments[number - 1]

    def pause(self, seconds: float) -> None:
        """Wait until none came for so long."""
        while not self.moments or time.monotonic() - self.moments[-1] < seconds:
            time.sleep(0.02)

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()


def write_config(folder: Path, port: int, source: str, **keys: Any) -> Path:
    """Write the config of a run."""
    path = folder / "bench.yaml"
    mqtt = {"host": "127.0.0.1", "port": port, "outbox": {"folder": str(folder)}}
    path.write_text(yaml.safe_dump({"device": "bench", "cameras": {"front": {"source": source}}, "mqtt": mqtt, **keys}))
    return path


def lives(folder: Path, port: int, runs: int) -> dict[str, list[float]]:
    """Start, reload and stop again and again."""
    steps = ("start_to_ready", "start_to_ready_cpu", "start_to_first_frame", "reload", "stop")
    took: dict[str, list[float]] = {step: [] for step in steps}
    frames = Frames(port)
    for _ in range(runs):
        service = Managed(write_config(folder, port, "synthetic://"), folder / "log")
        took["start_to_ready"].append(service.hear("READY=1") - service.began)
        took["start_to_ready_cpu"].append(service.cpu)
        took["start_to_first_frame"].append(frames.wait(1) - service.began)
        frames.wait(10)
        write_config(folder, port, "synthetic://", top_k=1)
        took["reload"].append(service.reload())
        took["stop"].append(service.stop())
    frames.close()
    return took


def returns(folder: Path, port: int, runs: int) -> list[float]:
    """Kill the camera, start it again after a while, and wait for its first published frame."""
    camera_port = free_port()
    camera = start_camera(camera_port)
    service = Managed(write_config(folder, port, f"rtsp://127.0.0.1:{camera_port}/cam"), folder / "log")
    frames = Frames(port)
    took = []
    try:
        for _ in range(runs):
            frames.wait(10)
            camera.kill()
            camera.wait()
            frames.pause(1.5)
            camera = start_camera(camera_port)
            began = time.monotonic()
            took.append(frames.wait(1) - began)
    finally:
        camera.kill()
        camera.wait()
        service.stop()
        frames.close()
    return took


def start_camera(port: int) -> "subprocess.Popen[str]":
    """Start an RTSP camera and return when it can be connected to."""
    server = subprocess.Popen(["/usr/bin/python3", str(RTSP_SERVER), str(port)], stdout=subprocess.PIPE, text=True)
    if server.stdout is None or server.stdout.readline() != "ready\n":
        sys.exit("no RTSP server (Debian packages gir1.2-gst-rtsp-server-1.0 python3-gi gstreamer1.0-plugins-ugly)")
    return server


def summed(seconds: list[float]) -> dict[str, float]:
    """Median and greatest."""
    return {"median_s": round(median(seconds), 3), "greatest_s": round(max(seconds), 3), "runs": len(seconds)}


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/lifecycle.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        user = ("user root",) if os.geteuid() == 0 else ()
        broker = start_broker(folder, port, *user)
        try:
            took = lives(folder, port, arguments.runs)
            took["camera_back_to_first_frame_published"] = returns(folder, port, arguments.runs)
        finally:
            broker.kill()
            broker.wait()
    outcome = {step: summed(seconds) for step, seconds in took.items()}
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        busy = {"load_average_of_the_last_minute": os.getloadavg()[0]}
        write_json("lifecycle", "chrt -r 5 python benchmarks/lifecycle.py --keep", outcome | busy)


if __name__ == "__main__":
    main()
