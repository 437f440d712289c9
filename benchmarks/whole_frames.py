"""CPU time per whole frame, camera to broker, beside a plain program of OpenCV, ONNX Runtime and paho.

    python benchmarks/whole_frames.py --yolox yolox_nano.onnx --yolox-model yolox-nano.safetensors --keep

Each runs on a stream of one clip over HTTP on this machine (H.264 in MPEG-TS, or MJPEG), with a broker and a subscriber
of its own: the service as users run it, one thread for the network, QoS 1, as it is and with `reduce: auto`; and
`plain_camera.py`, with the file that ONNX Runtime runs faster: ResNet-8 in int8, YOLOX-nano in float. Beside them
`decode_alone.py` decodes and does nothing else: no program that decodes every picture takes less. What counts is
the CPU time, user and system, of the whole process tree between two moments, by the kernel's own account in ns, per
message that the subscriber heard meanwhile. CPU time depends on other work on the machine far less than wall time does,
but not on nothing: programs take turns, and the figures are medians over rounds. ResNet-8 takes frames of 640x480,
YOLOX-nano larger ones. Without --clip ffmpeg draws a moving pattern with noise. Needs ffmpeg, mosquitto_sub, and the
packages onnxruntime and onnx; --peer names a Python that has onnxruntime, opencv-python-headless and paho-mqtt, by
default this one.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from benchmarks.frame_cost import broker_and_subscriber
from benchmarks.onnx_graph import to_onnx
from benchmarks.result_file import as_run, write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from reliability.many_cameras import processes
from rig.service_manager import EDGEMETA
from rig.waiting import free_port, wait_until

CODECS = {
    "h264": ("mp4", "mpegts", "-c:v libx264 -preset veryfast -profile:v main -g 30 -bf 0 -pix_fmt yuv420p"),
    "mjpeg": ("avi", "mpjpeg", "-c:v mjpeg -q:v 4 -pix_fmt yuvj420p"),
}
"""File, stream, and how it is encoded: as cameras do, without pictures that wait for later ones."""
BITRATES = {640: "1M", 1920: "4M", 3840: "12M"}
WARM_UP_FRAMES = 30
SERVICES: dict[str, dict[str, Any]] = {"edgemeta": {}, "edgemeta, reduce: auto": {"reduce": "auto"}}
PLAIN = "OpenCV, ONNX Runtime, paho"
DECODING = "decoding alone"
GOALS = {"ResNet-8": 0.35, "YOLOX-nano": 0.4}


@dataclass(frozen=True)
class Case:
    """A network on a stream. files: ours, and the plain program's by its task."""

    network: str
    width: int
    height: int
    codec: str
    ours: str
    task: str
    onnx: Path


def draw(folder: Path, case: Case, clip: Path | None, rate: int) -> Path:
    """Return the clip of a case, 8 s, encoded."""
    suffix, _, encoder = CODECS[case.codec]
    made, size = folder / f"{case.codec}-{case.width}.{suffix}", f"{case.width}x{case.height}"
    source = ["-i", str(clip)] if clip else ["-f", "lavfi", "-i", f"testsrc2=size={size}:rate={rate}"]
    changed = f"scale={size.replace('x', ':')}:flags=lanczos,noise=alls=4:allf=t"
    quality = ["-b:v", BITRATES[case.width]] if case.codec == "h264" else []
    command = ["ffmpeg", "-v", "error", "-y", *source, "-t", "8", "-vf", changed, "-r", str(rate), *encoder.split()]
    if not made.exists():
        subprocess.run([*command, *quality, str(made)], check=True)
    return made


@contextmanager
def stream(clip: Path, kind: str) -> Iterator[str]:
    """The address of an endless stream of a clip, for one client."""
    address = f"http://127.0.0.1:{free_port()}/camera"
    command = ["ffmpeg", "-v", "quiet", "-re", "-stream_loop", "-1", "-i", str(clip), "-c", "copy"]
    server = subprocess.Popen([*command, "-f", kind, "-listen", "1", address])
    try:
        time.sleep(1)
        yield address
    finally:
        server.kill()
        server.wait()


def spent(parent: int) -> tuple[float, int]:
    """Seconds of CPU time, and switches of threads that waited, of a process and all below it."""
    nanoseconds = switches = 0
    for process in processes(parent):
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):  # it has ended
                nanoseconds += int((task / "schedstat").read_text().split()[0])
                switches += int((task / "status").read_text().partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return nanoseconds / 1e9, switches


def messages(heard: Path) -> int:
    """Messages that the subscriber has written so far."""
    return heard.read_bytes().count(b"\n")


def measure(command: list[str], heard: Path, seconds: float) -> dict[str, float]:
    """Run a program until its messages come, and then for some seconds; what it takes per message."""
    running = subprocess.Popen(command)
    try:
        wait_until(lambda: messages(heard) >= WARM_UP_FRAMES or running.poll() is not None, "messages", 90)
        if running.poll() is not None:
            sys.exit(f"ended before its messages came: {' '.join(command)}")
        frames, before, at = messages(heard), spent(running.pid), time.monotonic()
        time.sleep(seconds)
        after, lasted = spent(running.pid), time.monotonic() - at
        frames = messages(heard) - frames
    finally:
        running.terminate()
        running.wait()
    each = {"ms": 1e3 * (after[0] - before[0]) / frames, "switches": (after[1] - before[1]) / frames}
    return {name: round(value, 3) for name, value in each.items()} | {"frames_per_s": round(frames / lasted, 2)}


def run(case: Case, clip: Path, who: str, options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Measure one program on a case once."""
    heard = folder / "heard"
    with stream(clip, CODECS[case.codec][1]) as address, broker_and_subscriber(folder, heard) as port:
        if who == DECODING:
            program = str(Path(__file__).with_name("decode_alone.py"))
            return measure([sys.executable, program, address, str(heard)], heard, options.seconds)
        if who == PLAIN:
            program = str(Path(__file__).with_name("plain_camera.py"))
            command = [options.peer, program, address, str(case.onnx), str(port), case.task]
            return measure(command, heard, options.seconds)
        keys = {
            "device": "bench",
            "model": case.ours,
            "cameras": {"camera": {"source": address, **SERVICES[who]}},
            "backend": {"options": {"threads": 1}},
            "mqtt": {"host": "127.0.0.1", "port": port},
            "data_folder": str(folder),
            "log": {"level": "warning"},
        }
        (folder / "config.yaml").write_text(yaml.safe_dump(keys))
        return measure([EDGEMETA, "run", str(folder / "config.yaml")], heard, options.seconds)


def cases(options: argparse.Namespace, folder: Path) -> list[Case]:
    """All cases that the command line asks for."""
    found = []
    resnet = find("resnet8-cifar10")
    (folder / "resnet.onnx").write_bytes(to_onnx(load(resnet)))
    for codec in options.codecs:
        found.append(Case("ResNet-8", 640, 480, codec, str(resnet), "classify", folder / "resnet.onnx"))
        for size in ((1920, 1080), (3840, 2160)) if options.yolox else ():
            ours = str(options.yolox_model.resolve())
            found.append(Case("YOLOX-nano", *size, codec, ours, "detect", options.yolox.resolve()))
    return [case for case in found if case.width in options.widths]


def row(case: Case, runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """The medians of a case over its rounds."""
    made: dict[str, Any] = {"network": case.network, "size": f"{case.width}x{case.height}", "codec": case.codec}
    made["programs"] = {
        who: {key: round(median(each[key] for each in rounds), 3) for key in rounds[0]} for who, rounds in runs.items()
    }
    made["ratios"] = {
        who: round(median(a["ms"] / b["ms"] for a, b in zip(rounds, runs[PLAIN], strict=True)), 3)
        for who, rounds in runs.items()
    }
    return made


def table(rows: list[dict[str, Any]], options: argparse.Namespace) -> str:
    """The figures as text."""
    lines = [
        f"CPU time per frame, all threads and processes, median of {options.rounds} rounds of {options.seconds:g} s; "
        "*switches*: how often a thread waited, per frame.",
        "",
        "| frames | network | program | CPU per frame | of the plain program's | switches |",
        "|---|---|---|---:|---:|---:|",
    ]
    for each in rows:
        for who, values in each["programs"].items():
            goal = f" (goal {GOALS[each['network']]:g})" if who in SERVICES else ""
            lines.append(
                f"| {each['size']} {each['codec']} | {each['network']} | {who} | {values['ms']:.2f} ms "
                f"| {each['ratios'][who]:.2f}{goal} | {values['switches']:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Read the command line, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx; without it only 640x480 is measured")
    parser.add_argument("--yolox-model", type=Path, help="our int8 file of it")
    parser.add_argument("--clip", type=Path, help="video file to show, scaled to each size")
    parser.add_argument("--codecs", nargs="+", choices=CODECS, default=list(CODECS))
    parser.add_argument("--widths", nargs="+", type=int, choices=BITRATES, default=list(BITRATES))
    parser.add_argument("--rate", type=int, default=10, help="frames per second of the stream")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--peer", default=sys.executable, help="the plain program's Python")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/whole-frames.json and .md")
    options = parser.parse_args()
    if missing := [name for name in ("ffmpeg", "mosquitto_sub") if shutil.which(name) is None]:
        sys.exit(f"not installed: {', '.join(missing)}")
    if (options.yolox is None) != (options.yolox_model is None):
        sys.exit("--yolox and --yolox-model: both or neither")
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in cases(options, folder):
            clip = draw(folder, case, options.clip, options.rate)
            runs: dict[str, list[dict[str, float]]] = {who: [] for who in (*SERVICES, PLAIN, DECODING)}
            for _ in range(options.rounds):
                for who, rounds in runs.items():
                    rounds.append(run(case, clip, who, options, folder))
            rows.append(row(case, runs))
            print(json.dumps(rows[-1]), flush=True)
    print(table(rows, options))
    if options.keep:
        write_json("whole-frames", as_run("whole_frames"), {"rows": rows})
        write_markdown("whole-frames", as_run("whole_frames"), table(rows, options))


if __name__ == "__main__":
    main()
