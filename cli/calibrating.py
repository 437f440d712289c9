"""`model calibrate`: makes a detection's scores say how often its objects are right."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.cli.options import json_option, load_model, model_argument, remark, report, writes_files
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.file import save
from edgemeta.model.tasks import Detection, task_name
from edgemeta.toolchain.data.boxes.opened import open_boxed_images
from edgemeta.toolchain.reject.detection_scores import MOST_FOREIGN, Calibrated
from edgemeta.toolchain.reject.detection_scores import calibrate as calibrate_scores
from edgemeta.toolchain.reject.sources import foreign_pictures

_path = click.Path(path_type=Path)


@click.command(short_help="Make a detection's scores say how often its objects are right.")
@model_argument
@click.option(
    "--held-out", type=_path, required=True, metavar="PATH", help="Pictures with boxes that took no part in training."
)
@click.option(
    "--foreign",
    type=_path,
    multiple=True,
    metavar="PATH",
    help="Pictures that show none of the labels: a folder, a video or a data set; repeatable.",
)
@click.option(
    "--most",
    type=click.FloatRange(0, 50),
    default=100 * MOST_FOREIGN,
    show_default=True,
    help="Greatest share of the foreign pictures that may have an object, in percent.",
)
@click.option(
    "--label-overlap",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="SHARE",
    help="Boxes of different labels that overlap by more are one object.  [default: as the model says]",
)
@click.option("--out", type=_path, required=True, metavar="FILE", help="The model file to write.")
@json_option
@writes_files("out")
def calibrate(
    model_name: str,
    held_out: Path,
    foreign: tuple[Path, ...],
    most: float,
    label_overlap: float | None,
    out: Path,
    as_json: bool,
) -> None:
    """Fit the scores of a detection to pictures with boxes, so that of objects that score 0.7 about 70 % are right.

    One factor for all logits and a number to add for each label become part of the last convolutions. With --foreign
    the score threshold rises until at most so many of these pictures have an object. Boxes stay as they are; the digest
    changes, so the new file must be signed again.

    \b
    Examples:
      edgemeta model calibrate yard.safetensors --held-out runs/yard/validation.npz --out calibrated.safetensors
      edgemeta model calibrate yard.safetensors --held-out validation/ --foreign walls/ --out calibrated.safetensors
    """
    model = load_model(model_name)
    if not isinstance(model.task, Detection):
        raise EdgemetaError(f"{model_name}: its task is {task_name(model.task)}, expected a detection")
    images = open_boxed_images(held_out, model.labels, model.input.shape[:2])
    pictures = [foreign_pictures(path, remark) for path in foreign]
    made, result = calibrate_scores(model, images, pictures, most / 100, label_overlap)
    digest = save(made, out)
    report(as_json, {"path": str(out), "sha256": digest, **asdict(result)}, _lines(result, out, digest))


def _lines(result: Calibrated, out: Path, digest: str) -> Iterator[str]:
    yield f"{out}: score threshold {result.score_threshold:g}, sha256 {digest[:12]}"
    yield f"{result.objects:,} objects; fitted to one half of the pictures and measured on the other, both ways:"
    yield f"  {result.error:.1%} between score and share of right ones; {result.plain_error:.1%} before"
    yield "  mean score, right, objects"
    for each in result.bins:
        yield f"  {each.score:10.0%} {each.right:6.0%} {each.objects:8,}"
    for name, share in result.foreign.items():
        yield f"  {share:.1%} of the pictures of {name} have an object"
