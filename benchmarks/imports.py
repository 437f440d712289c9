"""How far imported networks are from ONNX Runtime, on a random image, as a share of each output's range.

    python benchmarks/imports.py [--yolox FILE]      writes results/imports.md and imports.json

YOLOX-nano is a file of others (docs/test-data.md); the eleven topologies have random weights (topologies.py).
"""

import argparse
import hashlib
import tempfile
from pathlib import Path

from benchmarks.result_file import write_json, write_markdown
from benchmarks.topologies import TOPOLOGIES, write_topology
from tests.toolchain.importer.views import largest_difference

LIMIT = 1e-4


def main() -> None:
    """Read the command line, compare each, write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--yolox", type=Path, help="yolox_nano.onnx")
    arguments = parser.parse_args()
    differences: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in TOPOLOGIES:
            path = write_topology(name, Path(folder))
            differences[name] = largest_difference(path)
            path.unlink()
            print(f"{name:20} {differences[name]:.1e}", flush=True)
    digest = None
    if arguments.yolox is not None:
        differences["yolox_nano"] = largest_difference(arguments.yolox)
        digest = hashlib.sha256(arguments.yolox.read_bytes()).hexdigest()
        print(f"{'yolox_nano':20} {differences['yolox_nano']:.1e}")
    command = f"python benchmarks/imports.py{' --yolox yolox_nano.onnx' if digest else ''}"
    write_json("imports", command, {"yolox_sha256": digest, "differences": differences})
    rows = "\n".join(f"| {name} | {value:.1e} |" for name, value in differences.items())
    text = (
        "Largest difference between the imported float network and ONNX Runtime (its optimizations off), as a share of "
        f"the output's range. At most {LIMIT:g} is asked.\n\n| network | difference |\n|---|---|\n{rows}\n"
    )
    write_markdown("imports", command, text)
    if max(differences.values()) > LIMIT:
        raise SystemExit(f"a difference is above {LIMIT:g}")


if __name__ == "__main__":
    main()
