r"""MLPerf Tiny's float ResNet through our import and quantization, beside their own int8 file, on the same test images.

    python benchmarks/imported_accuracy.py --float pretrainedResnet.tflite --int8 pretrainedResnet_quant.tflite \
        --train train.npz --test test.npz          writes results/imported_accuracy.{json,md}

Both run on the cpu backend; their file keeps its integers. Calibrated with 500 training images.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.result_file import write_json, write_markdown
from edgemeta.model.file import load
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.forward import accuracy
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.measure import integer_logits
from edgemeta.toolchain.quantize.quantize import quantize

COMMAND = (
    "python benchmarks/imported_accuracy.py --float pretrainedResnet.tflite --int8 pretrainedResnet_quant.tflite "
    "--train train.npz --test test.npz"
)
IMAGES, LIMIT = 500, 0.3


def main() -> None:
    """Read the command line, measure the three networks, write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--float", "--int8", "--train", "--test"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--model", type=Path, help="our integer model, which was made so before")
    arguments = vars(parser.parse_args())
    data = load_dataset(arguments["test"], "test", labels=CIFAR10_LABELS)
    with tempfile.TemporaryDirectory() as folder:
        floating, theirs, ours = (Path(folder) / name for name in ("float", "theirs", "ours"))
        import_network(arguments["float"], floating, Pixels())
        import_network(arguments["int8"], theirs, Pixels())
        if arguments["model"] is None:
            quantize(floating, ours, AutoScheme(Calibration(arguments["train"], IMAGES)))
        model = load(arguments["model"] or ours)
        top1 = {
            "float": accuracy(load_float_model(floating), data.x, data.y),
            "int8 of MLPerf": float((integer_logits(load(theirs), data).argmax(1) == data.y).mean()),
            "int8, ours": float((integer_logits(model, data).argmax(1) == data.y).mean()),
        }
    percent = {name: round(100 * share, 2) for name, share in top1.items()}
    choice = model.provenance["choice"]
    write_json("imported_accuracy", COMMAND, {"images": len(data), "top1": percent, "choice": choice, "limit": LIMIT})
    rows = "\n".join(f"| {name} | {share:.2f} |" for name, share in percent.items())
    text = (
        f"MLPerf Tiny's ResNet on {len(data):,} CIFAR-10 test images in the project's JPEG copy (it was trained on the "
        f"published pixels), labels in CIFAR's order. Ours: {choice}, calibrated "
        f"with {IMAGES} training images; asked: not lower than theirs by more than {LIMIT} points.\n\n"
        f"| network | top-1 % |\n|---|---|\n{rows}\n"
    )
    write_markdown("imported_accuracy", COMMAND, text)
    print(text)


if __name__ == "__main__":
    main()
