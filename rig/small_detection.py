"""A detection and images with boxes so small that a network of it takes milliseconds: coloured cells."""

import numpy as np

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import AveragePool, Conv
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.toolchain.data.boxed_images import BoxedImages

LABELS = ("red", "green", "blue")
CELL, CELLS = 8, 6
SIZE = CELL * CELLS


def cell_network() -> FloatModel:
    """Means of cells; a colour's logit is great where the others are small. A box is its cell, nearly."""
    rng = np.random.default_rng(1)
    colours = (12 * np.eye(3) - 4).reshape(3, 1, 1, 3).astype(np.float32)
    nearly = rng.normal(0, 0.002, (4, 1, 1, 3)).astype(np.float32)
    layers = (
        AveragePool("cells", "input", kernel=(CELL, CELL), stride=(CELL, CELL)),
        Conv("classes", "cells", weights=colours, bias=np.full(3, -8, np.float32)),
        Conv("boxes", "cells", weights=nearly, bias=np.array([0.5, 0.5, 0, 0], np.float32)),
    )
    task = Detection(LABELS, "yolox", (DetectionLevel("boxes", "classes"),))
    return FloatModel("squares", (SIZE, SIZE, 3), layers, ("boxes", "classes"), task)


def cell_pictures(count: int, seed: int) -> BoxedImages:
    """One to four coloured cells in each, not all of them pure."""
    rng = np.random.default_rng(seed)
    x = np.full((count, SIZE, SIZE, 3), 110, np.uint8) + rng.integers(0, 30, (count, SIZE, SIZE, 3)).astype(np.uint8)
    objects = []
    for number in range(count):
        for place in rng.permutation(CELLS * CELLS)[: rng.integers(1, 5)].tolist():
            (row, column), label = divmod(place, CELLS), int(rng.integers(3))
            colour = np.where(np.arange(3) == label, rng.integers(150, 255), rng.integers(0, 110))
            top, left = CELL * row, CELL * column
            x[number, top : top + CELL, left : left + CELL] = colour
            objects.append((number, label, (left, top, left + CELL, top + CELL)))
    images, classes, boxes = (np.array(each) for each in zip(*objects, strict=True))
    return BoxedImages(x, boxes.astype(np.float32), classes, images, LABELS)
