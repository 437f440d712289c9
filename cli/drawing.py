"""`scenes`: draws images with boxes, to train and measure detectors with."""

from collections import Counter
from pathlib import Path

import click
import numpy as np

from edgemeta.cli.options import json_of, report, writes_files
from edgemeta.cli.progress import progress_bar
from edgemeta.plugins.drawn.crowd import LABELS, MAX_SIZE, MIN_SIZE, CrowdedScenes
from edgemeta.toolchain.data.boxed_images import BoxedImages, save_boxed_images


@click.command(short_help="Draw images with boxes, for detectors.")
@click.option("--images", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="How many.")
@click.option("--size", type=click.IntRange(MIN_SIZE, MAX_SIZE), default=160, show_default=True, help="Side, pixels.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31 - 1),
    default=1,
    show_default=True,
    help="Other seeds paint other things: take one for training and another one for testing.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The .npz archive to write."
)
@json_of("path, images, boxes.LABEL, sha256")
@writes_files("out")
def scenes(images: int, size: int, seed: int, out: Path, as_json: bool) -> None:
    """Draw scenes of one to six vehicles and animals of ten labels, with the box of each.

    They are drawn, not photographed: a detector trained on them finds drawn things. The archive holds x (uint8 pixels,
    RGB), boxes (x0, y0, x1, y1), classes, images (the number of each box's image) and labels.

    \b
    Examples:
      edgemeta scenes --images 6000 --seed 1 --out scenes.npz
      edgemeta scenes --images 1000 --seed 2 --out scenes-test.npz
    """
    painter, drawn = CrowdedScenes(seed, size), []
    with progress_bar("drawing", wanted=not as_json) as update:
        for number in range(images):
            drawn.append(painter.draw(number))
            update(number + 1, images)
    data = BoxedImages(
        np.stack([scene.pixels[..., ::-1] for scene in drawn]),
        np.concatenate([scene.boxes for scene in drawn]),
        np.concatenate([scene.classes for scene in drawn]),
        np.repeat(np.arange(images), [len(scene.boxes) for scene in drawn]),
        LABELS,
    )
    save_boxed_images(data, out)
    counts = Counter(data.classes.tolist())
    values = {
        "path": str(out),
        "images": images,
        "boxes": {label: counts[number] for number, label in enumerate(LABELS)},
        "sha256": data.sha256(),
    }
    labels = ", ".join(f"{counts[number]:,} {label}" for number, label in enumerate(LABELS))
    report(as_json, values, [f"{out}: {images:,} scenes of {size}x{size} pixels", f"boxes: {labels}"])
