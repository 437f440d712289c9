"""Soak: the service with a real mosquitto, a clip at 30 frames per second, and mosquitto_sub counting.

Every frame number from first to last must be published or counted as dropped, and memory must stay flat.

    python benchmarks/soak.py --clip CLIP --minutes 30 --keep      writes benchmarks/results/soak.json
"""

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from result_file import write_json

SAMPLE_EVERY = 10.0
WARM_AFTER = 60.0
"""Seconds after which memory is expected to be flat: allocators and caches have filled by then."""


@dataclass
class Account:
    """What a subscriber can prove from frame messages alone."""

    messages: int = 0
    first: int = 0
    last: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    unaccounted: int = 0
    repeated: int = 0
    stats: list[dict[str, Any]] = field(default_factory=list)
    offline: threading.Event = field(default_factory=threading.Event)

    def frame(self, message: dict[str, Any]) -> None:
        """Take one frame message; what is missing before it must be what its drop counts grew by."""
        sequence = message["sequence"]
        if sequence <= self.last:
            self.repeated += 1
            return
        grown = sum(message["dropped"].values()) - sum(self.dropped.values())
        self.unaccounted += abs(sequence - self.last - 1 - grown)
        self.messages += 1
        self.first = self.first or sequence
        self.last = sequence
        self.dropped = message["dropped"]

    def read(self, lines: Any) -> None:
        """Take what mosquitto_sub prints, `topic payload` per line, until it ends."""
        for line in lines:
            topic, _, payload = line.partition(" ")
            if topic.endswith("/frame"):
                self.frame(json.loads(payload))
            elif topic.endswith("/stats"):
                self.stats.append(json.loads(payload))
            elif payload.strip() == "offline":
                self.offline.set()


def resident_kib(pid: int) -> int:
    """Resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def sample(pid: int, started: float) -> dict[str, float]:
    """Memory, threads and open files of a process now."""
    return {
        "second": round(time.monotonic() - started, 1),
        "rss_kib": resident_kib(pid),
        "threads": len(list(Path(f"/proc/{pid}/task").iterdir())),
        "files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
    }


def free_port() -> int:
    """Return a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_broker(folder: Path, port: int, *lines: str) -> "subprocess.Popen[bytes]":
    """Start a mosquitto, with further lines in its config, and wait until it listens."""
    config = folder / "mosquitto.conf"
    config.write_text("\n".join((f"listener {port} 127.0.0.1", "allow_anonymous true", *lines, "")))
    program = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        sys.exit("mosquitto is not installed (Debian packages mosquitto, mosquitto-clients)")
    broker = subprocess.Popen([program, "-c", str(config)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return broker
        time.sleep(0.05)
    sys.exit("mosquitto does not listen")


def soak(clip: Path, minutes: float, model: str, folder: Path) -> dict[str, Any]:
    """Run it and return the result."""
    port = free_port()
    broker = start_broker(folder, port)
    account = Account()
    topics = ["edgemeta/soak/clip/frame", "edgemeta/soak/stats", "edgemeta/soak/availability"]
    subscriber = subprocess.Popen(
        ["mosquitto_sub", "-p", str(port), "-q", "1", "-v", *(word for topic in topics for word in ("-t", topic))],
        stdout=subprocess.PIPE,
        text=True,
    )
    reader = threading.Thread(target=account.read, args=(subscriber.stdout,))
    reader.start()
    config = folder / "soak.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "device": "soak",
                "model": model,
                "cameras": {"clip": {"source": str(clip.resolve()), "fps": 30, "loop": True}},
                "mqtt": {"host": "127.0.0.1", "port": port, "outbox": {"folder": str(folder)}},
                "stats": {"period": 60},
            }
        )
    )
    started = time.monotonic()
    service = subprocess.Popen([str(Path(sys.executable).with_name("edgemeta")), "run", str(config)])
    samples = []
    try:
        while service.poll() is None and time.monotonic() - started < minutes * 60:
            time.sleep(SAMPLE_EVERY)
            samples.append(sample(service.pid, started))
            if len(samples) % 6 == 0:
                print(samples[-1], account.messages, "messages", account.unaccounted, "unaccounted", flush=True)
        begun = time.monotonic()
        service.send_signal(signal.SIGTERM)
        exit_code = service.wait(20)
        stopping = time.monotonic() - begun
        account.offline.wait(10)
    finally:
        for process in (service, subscriber, broker):
            process.kill()
            process.wait()
        reader.join()
    return result(clip, minutes, model, account, samples, exit_code, stopping)


def third(samples: list[dict[str, float]], number: int) -> float:
    """Median resident memory of one third of the samples: frames in flight make single samples swing by a megabyte."""
    size = max(1, len(samples) // 3)
    return median(one["rss_kib"] for one in samples[number * size :][:size])


def result(
    clip: Path,
    minutes: float,
    model: str,
    account: Account,
    samples: list[dict[str, float]],
    exit_code: int,
    stopping: float,
) -> dict[str, Any]:
    """Sum up; the last stats message tells how the service itself counted."""
    warm = [one for one in samples if one["second"] >= WARM_AFTER] or samples
    counts = account.stats[-1]["cameras"]["clip"]
    return {
        "clip": clip.name,
        "model": model,
        "minutes": minutes,
        "frames_per_second": round(counts["captured"] / account.stats[-1]["uptime_s"], 2),
        "subscriber": {
            "messages": account.messages,
            "first_sequence": account.first,
            "last_sequence": account.last,
            "dropped_by_reason": account.dropped,
            "repeated": account.repeated,
            "unaccounted": account.unaccounted,
        },
        "service": {
            **counts,
            "unaccounted": counts["captured"] - counts["published"] - sum(counts["dropped"].values()),
            "exit_code": exit_code,
            "seconds_to_stop": round(stopping, 2),
        },
        "memory_kib": {
            "after_warm_up": warm[0]["rss_kib"],
            "middle": warm[len(warm) // 2]["rss_kib"],
            "end": warm[-1]["rss_kib"],
            "greatest": max(one["rss_kib"] for one in warm),
            "median_of_first_third": third(warm, 0),
            "median_of_last_third": third(warm, 2),
        },
        "threads": {"after_warm_up": warm[0]["threads"], "end": warm[-1]["threads"]},
        "open_files": {"after_warm_up": warm[0]["files"], "end": warm[-1]["files"]},
        "latency_us_last_full_period": account.stats[-2]["latency_us"] if len(account.stats) > 1 else None,
        "samples": samples[:: max(1, len(samples) // 30)],
    }


def main() -> None:
    """Read the command line, run, write the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clip", type=Path, required=True, help="video file")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--model", default="resnet8-cifar10", help="shipped name or absolute path")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/soak.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = soak(arguments.clip, arguments.minutes, arguments.model, Path(folder))
    if arguments.keep:
        command = f"python benchmarks/soak.py --clip {arguments.clip.name} --minutes {arguments.minutes:g} --keep"
        write_json("soak", command, outcome)
    print(json.dumps(outcome, indent=2))
    if outcome["subscriber"]["unaccounted"] or outcome["service"]["unaccounted"]:
        sys.exit("frames are unaccounted for")


if __name__ == "__main__":
    main()
