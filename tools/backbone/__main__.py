"""Train the shipped backbone from the test data (docs/test-data.md) and write its float model.

    python -m tools.backbone --data DATA --folder RUN --out backbone64-float.safetensors

DATA holds cifar10/, clothing/train/ and networks/yolox_nano.onnx. A run in the folder is continued. Needs PyTorch, onnx
and ONNX Runtime: pip install 'edgemeta[train,bench]'.
"""

import argparse
import logging
import sys
from dataclasses import replace
from pathlib import Path

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.float_file import save_float_model
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_alternates, load_dataset
from edgemeta.toolchain.progress import TrainingEvent
from tools.backbone.recipe import BackboneRecipe


def main() -> int:
    """Train, or continue, and write the float model."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.backbone",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder with cifar10/, clothing/ and networks/")
    parser.add_argument("--folder", type=Path, required=True, help="run folder for checkpoint and log")
    parser.add_argument("--out", type=Path, required=True, help="the float model to write")
    parser.add_argument("--epochs", type=int, default=BackboneRecipe.epochs, help="epochs of 6,400 views")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of PyTorch")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        _train(arguments)
    except EdgemetaError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _train(arguments: argparse.Namespace) -> None:
    import torch

    from tools.backbone.export import export_backbone
    from tools.backbone.train import Pictures, read_photographs, train_backbone

    torch.set_num_threads(arguments.threads)
    data = arguments.data
    labelled = load_dataset(data / "cifar10" / "train.npz", "train", labels=CIFAR10_LABELS)
    alternates = load_alternates(data / "cifar10" / "train_lossless.npz", labelled)
    pictures = Pictures(labelled, alternates, read_photographs(data / "clothing" / "train", logging.warning))
    recipe = replace(BackboneRecipe(), epochs=arguments.epochs)
    teacher_file = data / "networks" / "yolox_nano.onnx"
    student = train_backbone(recipe, pictures, teacher_file, arguments.folder, _show)
    save_float_model(export_backbone(student, recipe, pictures, teacher_file, labelled.labels), arguments.out)
    print(f"{arguments.out}: written after {recipe.epochs} epochs")


def _show(progress: TrainingEvent) -> None:
    accuracy = "" if progress.accuracy is None else f", {progress.accuracy:.1f} % of held-out images"
    loss = float("nan") if progress.loss is None else progress.loss
    place = f"epoch {progress.epoch}/{progress.epochs}, step {progress.step}/{progress.steps}"
    print(f"{place}: loss {loss:.4f}{accuracy}, {progress.seconds:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
