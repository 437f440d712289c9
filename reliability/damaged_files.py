"""Damaged and hostile files that a user gives to commands: ONNX and TFLite networks, pictures.

    python reliability/damaged_files.py --keep      55,000 inputs; writes benchmarks/results/damaged-files.json

Every input is a file that is read to the end or refused in one sentence that names it. Batches run in processes of
their own with limited memory, so that a crash, a hang and a hunger for memory are seen.
"""

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx

from benchmarks.result_file import write_json
from edgemeta.cli.progress import progress_bar
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.tasks import TaskName

COUNTS = {"onnx": 5_000, "tflite": 25_000, "picture": 25_000}
BATCH = 500
MEMORY = 3 << 30
"""Bytes of address space that a batch may take beside what it starts with."""
SLOW = 20.0
"""Seconds of computing after which an input counts as a problem."""
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def main() -> None:
    """Read the command line; run the batches, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="of the inputs, 0 to 1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/damaged-files.json")
    parser.add_argument("--batch", nargs=3, metavar=("KIND", "SEED", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batch is not None:
        kind, seed, count = arguments.batch
        print(json.dumps(feed(kind, int(seed), int(count))))
        return
    outcome = run({kind: round(count * arguments.share) for kind, count in COUNTS.items()}, arguments.seed)
    print(json.dumps(outcome, indent=2))
    if arguments.keep:
        share = "" if arguments.share == 1.0 else f" --share {arguments.share:g}"
        write_json("damaged-files", f"python reliability/damaged_files.py{share} --keep", outcome)
    if outcome["problems"]:
        sys.exit("some input was not met as it should be")


def run(counts: dict[str, int], seed: int) -> dict[str, Any]:
    """Feed so many inputs of each kind in batches, two at a time."""
    batches = [
        (kind, seed * 1_000_000 + start, min(BATCH, count - start))
        for kind, count in counts.items()
        for start in range(0, count, BATCH)
    ]
    totals: dict[str, Counter[str]] = {kind: Counter() for kind in counts}
    problems: list[str] = []
    peak, done = 0, 0
    with ThreadPoolExecutor(2) as pool, progress_bar("damaged files") as show:
        for (kind, first, count), found in zip(batches, pool.map(_in_process, batches), strict=True):
            done += count
            show(done, sum(counts.values()))
            totals[kind].update({key: found.get(key, 0) for key in ("inputs", "refused", "read")})
            problems += [f"{kind} {first}: {each}" for each in found["problems"]]
            peak = max(peak, found.get("peak_mib", 0))
    return {
        "inputs": {kind: dict(total) for kind, total in totals.items()},
        "inputs_in_all": sum(total["inputs"] for total in totals.values()),
        "peak_mib": peak,
        "problems": problems,
    }


def _in_process(batch: tuple[str, int, int]) -> dict[str, Any]:
    command = [sys.executable, "-m", "reliability.damaged_files", "--batch", *map(str, batch)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return {"inputs": batch[2], "problems": [f"the process ended with {done.returncode}: {done.stderr[-500:]}"]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def feed(kind: str, seed: int, count: int) -> dict[str, Any]:
    """Feed one batch in this process: how many were refused and read, and what went wrong."""
    outcomes, problems = Counter[str](), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        read, seeds, suffix = KINDS[kind](folder)
        size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
        for number in range(count):
            draw = random.Random(seed + number)
            path = folder / f"damaged{suffix}"
            path.write_bytes(damaged(draw.choice(seeds), draw))
            begin = _seconds()
            try:
                read(path)
                outcomes["read"] += 1
            except EdgemetaError as error:
                outcomes["refused"] += 1
                if "\n" in str(error) or str(path) not in str(error):
                    problems.append(f"{seed + number}: {error}")
            except BaseException as error:  # noqa: BLE001 (that is what is looked for)
                problems.append(f"{seed + number}: {type(error).__name__}: {error}")
            if _seconds() - begin > SLOW:
                problems.append(f"{seed + number}: took {_seconds() - begin:.0f} s")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) >> 10
    return {"inputs": count, **outcomes, "problems": problems, "peak_mib": peak}


def _seconds() -> float:
    """Time that this process and its children have computed."""
    return sum(os.times()[:4])


def damaged(content: bytes, draw: random.Random) -> bytes:
    """The file with one to eight damages: bytes, extreme numbers, parts cut, moved or doubled, an early end."""
    data = bytearray(content)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        place, length = draw.randrange(len(data)), draw.randrange(1, 65)
        match draw.randrange(7):
            case 0:
                data[place] = draw.randrange(256)
            case 1:
                data[place] ^= 1 << draw.randrange(8)
            case 2:
                at = place & ~3
                data[at : at + 4] = draw.choice(EXTREMES).to_bytes(4, draw.choice(("little", "big")))
            case 3:
                del data[place : place + length]
            case 4:
                data[place:place] = data[place : place + length]
            case 5:
                other = draw.randrange(len(data))
                data[place : place + length] = data[other : other + length]
            case 6 if draw.random() < 0.3:
                del data[place:]
        if not data:
            return b""
    return bytes(data)


Reader = Callable[[Path], object]


def _task_of(path: Path) -> TaskName | None:
    """One task for each file, most of them recognized: those that take many kinds of outputs, too."""
    tasks: tuple[TaskName | None, ...] = (None, None, None, "raw", "segmentation", "keypoints")
    return tasks[zlib.crc32(path.read_bytes()) % len(tasks)]


def _read_network(import_file: Callable[[Path], tuple[Any, Any]], out: Path, pixels: tuple[float, float]) -> Reader:
    """Imports a file as it is and with one of the tasks; its integers become layers, where it has them."""
    from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
    from edgemeta.toolchain.importer.import_network import import_network
    from edgemeta.toolchain.importer.integer_network import integer_network
    from edgemeta.toolchain.importer.pixels import Pixels

    mean, deviation = pixels

    def read(path: Path) -> None:
        network, imported = import_file(path)
        if imported.quantized:
            integer_network(network, imported, imported.tensors, path)
        import_network(path, out, Pixels((mean,), (deviation,)), TaskSettings(task=_task_of(path)))

    return read


def _onnx(folder: Path) -> tuple[Reader, list[bytes], str]:
    from benchmarks.topologies import write_topology
    from edgemeta.toolchain.importer import onnx_weights
    from edgemeta.toolchain.importer.onnx_network import import_onnx
    from tests.toolchain.importer import test_operators, test_qdq

    files = [write_topology(name, folder, 32) for name in ("shufflenet_v2",)]
    files += _detections(folder)
    for number, name in enumerate(sorted(test_operators.CASES)):
        files.append(test_operators.written(test_operators.CASES[name], _folder(folder, str(number))))
    for number, (name, form) in enumerate(QUANTIZED):
        small = test_operators.written(test_qdq.CASES[name], _folder(folder, f"q{number}"))
        files += [test_qdq.quantized(small, form=form)] * 3
    usual = onnx_weights.LEAST_FILE, onnx_weights.LEAST_TENSOR
    read_usual = _read_network(import_onnx, folder / "out.safetensors", (128.0, 60.0))

    def read(path: Path) -> None:
        is_large = zlib.crc32(path.read_bytes()) & 1  # half of them as large files are read
        onnx_weights.LEAST_FILE, onnx_weights.LEAST_TENSOR = (0, 64) if is_large else usual
        read_usual(path)

    return read, [each.read_bytes() for each in files], ".onnx"


QUANTIZED = (
    *((name, "QDQ") for name in ("Conv", "Gemm", "Mul, swish", "Add, Relu", "LayerNormalization, Gather")),
    *((name, form) for name in ("Attention", "AveragePool", "Conv") for form in ("QDQ", "QOperator")),
)
"""Cases of test_qdq that are quantized, and the form."""


def _detections(folder: Path) -> list[Path]:
    """Of each family, with points and masks, one in integers, and one with Ultralytics' metadata."""
    from tests.toolchain.importer import test_extras, test_families, test_qdq, test_undecoded_families

    writes = [each[0] for each in (*test_families.DECODED.values(), *test_undecoded_families.UNDECODED.values())]
    writes += [test_extras.pose(4, 1, 0.5), test_extras.retina, test_extras.masked]
    files = [test_families.written(_folder(folder, f"d{number}"), each) for number, each in enumerate(writes)]
    center = test_undecoded_families.UNDECODED["CenterNet"][0]
    files += [test_qdq.quantized(test_families.written(_folder(folder, "center"), center))] * 3
    described = onnx.load(str(files[0]))
    said = {"names": "{0: 'cat', 1: 'dog', 2: 'cow'}", "imgsz": "[64, 64]", "task": "detect", "stride": "16"}
    onnx.helper.set_model_props(described, said | {"kpt_names": "{0: ['nose', 'eye']}"})
    onnx.save(described, str(folder / "described.onnx"))
    return [*files, *[folder / "described.onnx"] * 3]


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


def _tflite(folder: Path) -> tuple[Reader, list[bytes], str]:
    from edgemeta.toolchain.importer.tflite_network import import_tflite
    from tests.toolchain.importer.test_stored_names import NAMES, archive
    from tests.toolchain.importer.test_stored_pixels import metadata, tflite_file
    from tests.toolchain.importer.test_tflite_operators import FLOAT, INT8
    from tests.toolchain.importer.tflite_cases import written, written_int8

    contents = [written(case, folder).read_bytes() for case in FLOAT.values()]
    contents += [written_int8(case, folder).read_bytes() for case in INT8.values()]
    contents += [each + archive(temp_meta__txt=str(NAMES), labels__txt="cat\ndog\n") for each in contents[:5]]
    contents += [tflite_file(folder, metadata([127.5], [127.5])).read_bytes()] * 5
    return _read_network(import_tflite, folder / "out.safetensors", (131.0, 50.0)), contents, ".tflite"


def _picture(_: Path) -> tuple[Reader, list[bytes], str]:
    from edgemeta.plugins.pictures import read_picture

    rng = np.random.default_rng(2)
    image = rng.integers(0, 256, (6, 8, 3)).astype(np.uint8).repeat(8, 0).repeat(8, 1)
    contents = []
    for suffix in (".jpg", ".png", ".bmp", ".webp", ".tiff"):
        for pixels in (image, np.repeat(image[:, :, :1], 3, 2), image[:1, :1]):
            contents.append(cv2.imencode(suffix, pixels)[1].tobytes())
    contents += [cv2.imencode(".ppm", image)[1].tobytes(), cv2.imencode(".pgm", image[:, :, 0])[1].tobytes()]
    deep = cv2.imencode(".png", image.astype(np.uint16) * 257)[1]
    return read_picture, [*contents, deep.tobytes()], ".picture"


KINDS: dict[str, Callable[[Path], tuple[Reader, list[bytes], str]]] = {
    "onnx": _onnx,
    "tflite": _tflite,
    "picture": _picture,
}

if __name__ == "__main__":
    main()
