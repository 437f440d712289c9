"""The trained backbone as a float model, with where it comes from."""

import hashlib
from pathlib import Path

import torch

from edgemeta.model.graph import FloatModel
from tools.backbone.recipe import HELD_OUT, BackboneRecipe
from tools.backbone.student import Backbone, Student
from tools.backbone.train import Pictures

SIDE = 64
"""Side of the exported network's input, pixels. Convolutions have no fixed size."""
TEACHER = "YOLOX-nano (github.com/Megvii-BaseDetection/YOLOX), Copyright 2021 Megvii Inc., Apache-2.0"
CELLS = (4, 4)
"""Cells of a side of the grids on which `edgemeta teach` averages the ends of the second and the third stage."""


def export_backbone(
    student: Student, recipe: BackboneRecipe, pictures: Pictures, teacher_file: Path, labels: tuple[str, ...]
) -> FloatModel:
    """The backbone and its dense layer for CIFAR-10's classes; its provenance names the teacher and all pictures."""
    provenance: dict[str, object] = {
        "recipe": recipe.name,
        "recipe_sha256": recipe.digest(),
        "epochs": recipe.epochs,
        "views": recipe.epochs * recipe.steps * 2 * recipe.half,
        "torch": torch.__version__,
        "start": recipe.start,
        "imitates": TEACHER,
        "imitates_sha256": hashlib.sha256(teacher_file.read_bytes()).hexdigest(),
        "labels_from": f"CIFAR-10, {len(pictures.images):,} training images; the last {HELD_OUT:,} are held out",
        "unlabelled": f"{len(pictures.photographs):,} photographs of clothing-dataset-small's folder train (CC0), "
        "pixels without labels",
        "pixels_sha256": pictures.sha256(),
        "teach": {"side": SIDE, "grids": dict(zip(student.network.ends[1:], CELLS, strict=True))},
    }
    network = Backbone(recipe, SIDE)
    network.load_state_dict(student.network.state_dict())
    return network.eval().classification(recipe.name, labels, provenance)
