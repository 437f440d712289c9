"""`model reject`: gives a classification a rule for images that show nothing it knows."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from edgemeta.cli.options import json_option, load_model, model_argument, remark, report, writes_files
from edgemeta.model.file import save
from edgemeta.toolchain.charts import EvidenceChart, require_matplotlib
from edgemeta.toolchain.evaluate.rejection import MOST_LOST
from edgemeta.toolchain.reject.reject import Rejected
from edgemeta.toolchain.reject.reject import reject as reject_with
from edgemeta.toolchain.reject.sources import foreign_pictures, known_pictures, labelled

_path = click.Path(path_type=Path)


@click.command(short_help="Give a model a rule for images that show nothing it knows.")
@model_argument
@click.option(
    "--held-out", type=_path, required=True, metavar="PATH", help="Labelled images that took no part in training."
)
@click.option(
    "--known",
    type=_path,
    multiple=True,
    metavar="PATH",
    help="Labelled images like those of the training, or these themselves, to learn the evidence from; repeatable.",
)
@click.option(
    "--foreign",
    type=_path,
    multiple=True,
    metavar="PATH",
    help="Images that show none of the labels: a folder, a video or a data set; repeatable.",
)
@click.option(
    "--unseen",
    type=_path,
    multiple=True,
    metavar="PATH",
    help="The same, only to measure the rule with: it is not fitted to them; repeatable.",
)
@click.option(
    "--lost",
    type=click.FloatRange(0, 50),
    default=100 * MOST_LOST,
    show_default=True,
    help="Greatest share of the held-out images that may lose a right label, in percent.",
)
@click.option("--plot", type=_path, metavar="FILE", help="Write a chart (PNG; needs matplotlib: extra `train`).")
@click.option("--out", type=_path, required=True, metavar="FILE", help="The model file to write.")
@json_option
@writes_files("out", "plot")
def reject(
    model_name: str,
    held_out: Path,
    known: tuple[Path, ...],
    foreign: tuple[Path, ...],
    unseen: tuple[Path, ...],
    lost: float,
    plot: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Give a classification a rule of rejection: below a threshold an image is unknown and gets no label.

    Fits the threshold, and the temperature of the scores, to the held-out images. With --known the model also learns to
    tell known images from foreign ones, with three small layers more; foreign images are made of the known ones, and
    those of --foreign are added. Without, the greatest logit decides. The logits stay as they are, bit for bit; the
    digest changes, so the new file must be signed again.

    \b
    Examples:
      edgemeta model reject mine.safetensors --held-out validation/ --known train/ --foreign yard.mp4 \\
          --plot evidence.png --out new.safetensors
      edgemeta model reject mine.safetensors --held-out validation/ --out new.safetensors --json
    """
    if plot is not None:
        require_matplotlib()
    model = load_model(model_name)
    made, result, integers = reject_with(
        model,
        labelled(held_out, model, "test", _left_out),
        known_pictures(known, model, _left_out),
        [foreign_pictures(path, _left_out) for path in foreign],
        [foreign_pictures(path, _left_out) for path in unseen],
        lost / 100,
        report=remark,
    )
    digest = save(made, out)
    if plot is not None:
        evidence = {name: each.evidence for name, each in integers.items()}
        title = f"{made.name}: evidence that an image shows something known"
        label = (
            f"evidence, integers; from the threshold {result.threshold} an image gets a label, the share of each kind"
        )
        EvidenceChart(title, label, evidence, result.threshold).save_png(plot)
    values = {"path": str(out), "sha256": digest, **asdict(result), "plot": None if plot is None else str(plot)}
    report(as_json, values, _lines(result, out, digest))


def _left_out(sentence: str) -> None:
    click.echo(f"left out: {sentence}", err=True)


def _lines(result: Rejected, out: Path, digest: str) -> Iterator[str]:
    yield f"{out}: threshold {result.threshold}, temperature {result.temperature:g}, sha256 {digest[:12]}"
    yield f"{result.held_out:,} held-out images, fitted to one half and measured on the other, both ways:"
    yield f"  {result.lost:6.2%} have a right label and lose it"
    yield f"  {1 - result.wrong:6.2%} of the wrong labels are rejected"
    yield (
        f"  {result.calibration_error:6.2%} calibration error of the labels given; "
        f"{result.plain_calibration_error:.2%} without rule and temperature"
    )
    for heading, shares in (("foreign images", result.foreign), ("foreign images, not used", result.unseen)):
        if shares:
            yield f"{heading}: share that gets a label"
        for name, share in shares.items():
            yield f"  {share:6.1%} {name}"
