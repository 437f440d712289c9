"""`classify`: classify image files."""

import time
from pathlib import Path

import click

from edgemeta.cli.options import backend_options, json_option, load_model, model_argument, open_session, report
from edgemeta.daemon.capture.sources.image import read_image
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import logits_of, top_k


@click.command()
@model_argument
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@click.option("--top", default=3, show_default=True, type=click.IntRange(min=1), help="Number of labels to print.")
@backend_options
@json_option
def classify(
    model_name: str,
    images: tuple[str, ...],
    top: int,
    backend: str,
    threads: int | None,
    isa: str | None,
    as_json: bool,
) -> None:
    """Print the most likely labels of each IMAGE, with their scores.

    \b
    Examples:
      edgemeta classify resnet8-cifar10 cat.jpg ship.png
      edgemeta classify ./mine.safetensors *.jpg --top 1 --json
    """
    model = load_model(model_name)
    frames = [(path, read_image(Path(path))) for path in images]
    name, session = open_session(model, backend, threads, isa)
    found = []
    try:
        for path, pixels in frames:
            preprocessor = make_preprocessor(model, pixels.shape)
            begin = time.perf_counter_ns()
            logits = logits_of(session.run(preprocessor(pixels)))[0]
            microseconds = (time.perf_counter_ns() - begin) / 1000
            labels = [{"label": label, "score": round(score, 4)} for label, score in top_k(model, logits, top)]
            found.append({"image": path, "top": labels, "us": round(microseconds, 1)})
    finally:
        session.close()
    values = {"model": model.name, "sha256": model.digest, "backend": name, "results": found}
    report(as_json, values, (_line(result) for result in found))


def _line(result: dict[str, object]) -> str:
    top = result["top"]
    assert isinstance(top, list)
    return f"{result['image']}: " + ", ".join(f"{entry['label']} {entry['score']:.1%}" for entry in top)
