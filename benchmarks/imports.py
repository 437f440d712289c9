"""How far imported networks are from the runtimes they were made for.

    python benchmarks/imports.py [--data FOLDER]      writes results/imports.md and imports.json

Float networks on a random image, as a share of each output's range; int8 networks in steps of their outputs. The eleven
topologies have random weights (topologies.py); the files of others and images are in FOLDER (docs/test-data.md).
"""

import argparse
import hashlib
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import import_integers
from benchmarks.result_file import write_json, write_markdown
from benchmarks.topologies import TOPOLOGIES, write_topology
from tests.toolchain.importer.views import largest_difference

LIMIT = 1e-4


def main() -> None:
    """Read the command line, compare each, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of files of others and of images")
    data = parser.parse_args().data
    differences = _float_onnx(data)
    outcome: dict[str, Any] = {"differences": differences, "qdq": list(import_integers.qdq_rows())}
    if data is not None:
        outcome["yolox_sha256"] = hashlib.sha256((data / "networks" / "yolox_nano.onnx").read_bytes()).hexdigest()
        outcome["tflite_differences"] = import_integers.float_rows(data)
        outcome["tflite"] = list(import_integers.tflite_rows(data))
        outcome["litert_itself"] = import_integers.litert_itself(data)
        outcome["accuracy"] = import_integers.accuracy(data)
        outcome["exported"] = import_integers.exported(data)
    command = f"python benchmarks/imports.py{' --data FOLDER' if data is not None else ''}"
    write_json("imports", command, outcome)
    write_markdown("imports", command, _text(outcome))
    if max(differences.values()) > LIMIT:
        raise SystemExit(f"a difference is above {LIMIT:g}")


def _float_onnx(data: Path | None) -> dict[str, float]:
    differences: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in TOPOLOGIES:
            path = write_topology(name, Path(folder))
            differences[name] = largest_difference(path)
            path.unlink()
            print(f"{name:20} {differences[name]:.1e}", flush=True)
    if data is not None:
        differences["yolox_nano"] = largest_difference(data / "networks" / "yolox_nano.onnx")
    return differences


def _text(outcome: dict[str, Any]) -> str:
    rows = "\n".join(f"| {name} | {value:.1e} |" for name, value in outcome["differences"].items())
    text = (
        "Largest difference between the imported float network and ONNX Runtime (its optimizations off), as a share of "
        f"the output's range. At most {LIMIT:g} is asked.\n\n| network | difference |\n|---|---|\n{rows}\n"
    )
    text += (
        "\nInt8 networks, QDQ ONNX as ONNX Runtime quantizes it (random weights, random images), beside ONNX Runtime "
        f"with its optimizations off.\n\n{_integers(outcome['qdq'])}"
    )
    if "tflite" not in outcome:
        return text
    rows = "\n".join(f"| {name} | {value:.1e} |" for name, value in outcome["tflite_differences"].items())
    accuracy, exported = outcome["accuracy"], outcome["exported"]
    return text + (
        "\nThe same for float TFLite files, beside LiteRT's reference kernels.\n\n"
        f"| network | difference |\n|---|---|\n{rows}\n"
        '\nInt8 TFLite files beside LiteRT\'s reference kernels. "Layers" are compared one by one (3 images), each fed '
        f"each fed with LiteRT's own integers.\n\n{_integers(outcome['tflite'])}\n"
        f"LiteRT's default kernels give the label of its reference kernels in {outcome['litert_itself']:.1%} of the "
        "images of the first row. Why whole networks differ: docs/import.md.\n\n"
        f"MLPerf's int8 ResNet-8 on the 10,000 CIFAR-10 test images of the data folder: {accuracy['litert']:.2%} by "
        f"LiteRT's default kernels, {accuracy['imported']:.2%} imported.\n\n"
        f"`edgemeta export` of resnet8-cifar10 in ONNX Runtime gives our label in {exported['same_label']:.2%} of "
        f"{exported['images']:,} images.\n"
    )


def _integers(found: list[dict[str, Any]]) -> str:
    rows = "\n".join(
        f"| {row['network']} | {row['images']:,} | {row['same_label']:.1%} | {row['outputs_equal']:.1%} | "
        f"{row['outputs_within_one']:.1%} | {row['largest_step']} | {row['layers_equal']:.2%} | "
        f"{row['largest_step_of_a_layer']} |"
        for row in found
    )
    head = "| network | images | same label | outputs equal | within 1 step | largest | layers equal | largest |"
    return f"{head}\n|{'---|' * 8}\n{rows}\n"


if __name__ == "__main__":
    main()
