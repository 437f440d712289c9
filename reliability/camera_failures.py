"""1,000 camera failures of each kind: growth of memory, open files, threads and processes.

    python reliability/camera_failures.py --keep      writes benchmarks/results/camera-failures.json

Each kind runs in its own process: the daemon's camera thread reopens its source as fast as it fails. Resources are
counted after a warm-up of 300 failures, and again after 1,000 more. Each kind runs once more with a planted leak of
2 KB per failure, which must be detected: otherwise the check would prove nothing.
"""

import argparse
import contextlib
import gc
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json
from edgemeta.daemon.capture.camera import Camera, CameraStatus
from edgemeta.daemon.capture.source import Frame, Source, SourceSpec
from edgemeta.daemon.capture.sources.reader_thread import MAX_HANGING
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.section import RetryConfig
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.daemon.runtime.log_setup import set_up

WARM_UP = 300
FAILURES = 1000
LEAK = 2048
"""Bytes per failure that the planted leak keeps."""

GREATEST_GROWTH_KIB = 1024
"""Growth over the failures beyond which they count as leaking."""


class Counting:
    """A source that counts its openings, and at two of them what the process holds: then nothing of it is open."""

    def __init__(self, source: Source, failures: int, leak: int) -> None:
        self._source = source
        self._leak = leak
        self._kept: list[bytes] = []
        self._counts: dict[int, dict[str, int]] = {}
        self._last = WARM_UP + failures
        self._opened = 0
        self.live = source.live
        self.done = threading.Event()

    @property
    def interval_ns(self) -> int:
        """The source's own."""
        return self._source.interval_ns

    def open(self) -> None:
        """Count, leak where that is planted, and open."""
        self._opened += 1
        self._kept += [os.urandom(self._leak)] if self._leak else []
        if self._opened in (WARM_UP, self._last):
            self._counts[self._opened] = counted()
        if self._opened == self._last:
            self.done.set()
        self._source.open()

    def read(self) -> Frame:
        """Read."""
        return self._source.read()

    def close(self) -> None:
        """Close."""
        self._source.close()

    @property
    def before(self) -> dict[str, int]:
        """What the process held after the warm-up."""
        return self._counts[WARM_UP]

    @property
    def after(self) -> dict[str, int]:
        """What it held at the end."""
        return self._counts[self._last]


def counted() -> dict[str, int]:
    """Resident memory in KiB, open files, threads and children of this process, after a collection."""
    gc.collect()
    status = Path("/proc/self/status").read_text("utf-8")
    children = (task / "children" for task in Path("/proc/self/task").iterdir())
    return {
        "rss_kib": int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "processes": sum(len(path.read_text("utf-8").split()) for path in children),
    }


def child(address: str, failures: int, leak: int) -> None:
    """Fail the given number of times, and print the counts before and after."""
    set_up("error")
    config = CameraConfig(source=address, frame_timeout=0.1, retry=RetryConfig(initial_delay=0.001, max_delay=0.001))
    source = Counting(make_source(SourceSpec(SourceAddress(address), timeout=config.frame_timeout)), failures, leak)

    def on_fatal(error: BaseException) -> None:
        print(f"crashed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)

    def deliver(_name: str, _frame: Frame) -> None:
        """Take the frame."""

    def on_status(_name: str, _status: CameraStatus) -> None:
        """Ignore the status."""

    camera = Camera("failing", config, source, deliver, on_status, on_fatal)
    camera.start()
    source.done.wait()
    print(
        json.dumps(
            {
                "before": source.before,
                "after": source.after,
                "words": camera.status.description if camera.status else "",
            }
        ),
        flush=True,
    )
    os._exit(0)


@contextlib.contextmanager
def kinds() -> Iterator[dict[str, str]]:
    """The addresses of sources that fail, each in another way."""
    with tempfile.TemporaryDirectory() as folder:
        cut = Path(folder) / "cut.avi"
        cut.write_bytes(b"RIFF" + bytes(5000))
        yield {
            "stream refused": "rtsp://127.0.0.1:9/cam",
            "stream of no video": f"http://127.0.0.1:{serve(b'no video' * 100)}/",
            "stream that hangs": f"http://127.0.0.1:{serve(b'')}/",
            "device not there": "v4l2:///dev/video97",
            "file not there": f"{folder}/gone.avi",
            "file of no video": str(cut),
            "pipeline without its element": "gstreamer://nosuchelement",
            "pipeline that ends": "gstreamer://videotestsrc num-buffers=2 ! video/x-raw,width=320,height=240",
        }


def serve(text: bytes) -> int:
    """Serve text over HTTP on a loopback port in a thread, or never answer; returns the port."""
    server = socket.create_server(("127.0.0.1", 0))
    silent: list[socket.socket] = []

    def answer() -> None:
        while True:
            connection, _ = server.accept()
            if not text:
                silent.append(connection)
                continue
            with connection, contextlib.suppress(OSError):
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" + text)

    threading.Thread(target=answer, daemon=True).start()
    return int(server.getsockname()[1])


def measure(address: str, failures: int, leak: int) -> dict[str, Any]:
    """Run one kind in its own process; return what it counted and how much grew."""
    command = [sys.executable, __file__, "--child", address, "--failures", str(failures), "--leak", str(leak)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    result: dict[str, Any] = json.loads(said)
    grown = {key: result["after"][key] - result["before"][key] for key in result["before"]}
    return {"grown": grown, **result}


def main() -> None:
    """Read the command line, measure every kind with and without the leak, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--failures", type=int, default=FAILURES)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/camera-failures.json")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--leak", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.child, arguments.failures, arguments.leak)
    rows, bad = {}, []
    with kinds() as addresses:
        for kind, address in addresses.items():
            rows[kind] = measure(address, arguments.failures, 0)
            rows[kind]["words"] = re.sub(
                r"(?<= )/\S*/(?=\w+\.avi)", "", rows[kind]["words"]
            )  # no folder of this machine
            grown = rows[kind]["grown"]
            leaking = measure(address, arguments.failures, LEAK)["grown"]["rss_kib"]
            rows[kind]["grown_with_planted_leak_kib"] = leaking
            print(f"{kind}: {grown}, with the planted leak {leaking} KiB; {rows[kind]['words']}", flush=True)
            if (
                grown["rss_kib"] > GREATEST_GROWTH_KIB
                or max(grown["files"], grown["threads"], grown["processes"]) > MAX_HANGING
            ):
                bad.append(f"{kind} leaks")
            if leaking <= GREATEST_GROWTH_KIB:
                bad.append(f"the leak planted in {kind} was not seen")
    if arguments.keep:
        write_json(
            "camera-failures",
            "python reliability/camera_failures.py --keep",
            {"failures": arguments.failures, "kinds": rows},
        )
    if bad:
        sys.exit("; ".join(bad))


if __name__ == "__main__":
    main()
