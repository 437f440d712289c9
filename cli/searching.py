"""`search`: chooses the bits of every layer of a float network."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from edgemeta.cli.options import json_of, remark, report
from edgemeta.cli.progress import Move, in_words, progress_bar
from edgemeta.model.atomic_write import prepare_output, write_atomically
from edgemeta.toolchain.charts import require_matplotlib
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.config import load_search
from edgemeta.toolchain.search.report import html
from edgemeta.toolchain.search.result import Outcome, best, outcomes, save_chosen, values_of, write_values
from edgemeta.toolchain.search.run import Searched, SearchObserver
from edgemeta.toolchain.search.run import search as run_search
from edgemeta.toolchain.search.training_file import FILE, write_training

_path = click.Path(path_type=Path)
_INTERRUPTED = 130


@click.command(short_help="Search for the bits of every layer's weights and feature maps.")
@click.option("--config", type=_path, required=True, metavar="FILE", help="YAML: network, what is varied, what counts.")
@click.option("--trials", type=click.IntRange(min=1), metavar="N", help="Trials of the study, of all workers together.")
@click.option("--data", type=click.Path(), metavar="PATH", help="Labelled images; default: `data` of the config.")
@click.option(
    "--storage", metavar="URL", help="Database or journal file of the trials; default: `storage` of the config."
)
@click.option(
    "--folder", type=_path, required=True, metavar="RUN", help="Folder for the results; it is made if it is missing."
)
@click.option(
    "--test", type=_path, metavar="PATH", help="Labelled images to measure the chosen network on, at the end."
)
@json_of(
    "trials, best (objective, accuracy, bytes, weights, features), front, model, measure (what accuracy is), "
    "found_by, remarks"
)
def search(
    config: Path,
    trials: int | None,
    data: str | None,
    storage: str | None,
    folder: Path,
    test: Path | None,
    as_json: bool,
) -> None:
    """Search for the bits, or binary bases, of every layer's weights, and for the bits of every feature map.

    Trials are stored as they end: the same command continues an interrupted search, and given again, on this machine or
    on others with the same storage, it is one more worker. The chosen network is a model file, beside a report with the
    Pareto front, and a config with which `edgemeta simulate train` trains it on at the found widths.

    With `budget_bytes` or `times_smaller` in the config only networks whose packed weights keep this budget are tried.

    \b
    Examples:
      edgemeta search --config configs/search/resnet8-binary.yaml --data train.npz --folder run --trials 200
      edgemeta search --config mine.yaml --folder run --storage postgresql+psycopg://me@host/trials
      edgemeta search --config mine.yaml --test test.npz --folder runs/mine
      edgemeta search --config configs/search/resnet8-budget.yaml --data train.npz --folder run
    """
    chosen = load_search(config, trials=trials, data=data, storage=storage)
    if config.resolve() == (folder / FILE).resolve():
        raise click.UsageError(f"--config {config} would be replaced by the result of that name in --folder {folder}")
    require_matplotlib()  # for the report at the end
    prepare_output(folder / "report.html")
    try:
        with ExitStack() as stack:
            searched = run_search(chosen, folder, _Shown(stack))
    except KeyboardInterrupt:
        remark("interrupted: the same command continues the search")
        raise SystemExit(_INTERRUPTED) from None
    _write(
        searched, values_of(chosen, searched, None, None), folder
    )  # what was found stays, whatever the model's file meets
    outcome = best(outcomes(searched.trials))
    saved = save_chosen(searched, outcome, folder / "best.safetensors", test, remark)
    values = values_of(chosen, searched, saved, _training_file(searched, outcome, folder / FILE))
    _write(searched, values, folder)
    report(as_json, values, _text(values, folder))


def _write(searched: Searched, values: dict[str, Any], folder: Path) -> None:
    write_values(values, folder / "search.json")
    write_atomically(folder / "report.html", html(searched, values["remarks"]).encode())


def _training_file(searched: Searched, outcome: Outcome, path: Path) -> Path | None:
    """Write the config for training on; None, with a remark, for a network that is not trained here."""
    if searched.config.scheme == "binary":
        return None
    try:
        write_training(searched.config, searched.setup.network, outcome.bits, path)
    except SearchError as error:
        remark(f"no {path.name} is written: {error}")
        return None
    return path


def _text(values: dict[str, Any], folder: Path) -> Iterator[str]:
    best_values = values["best"]
    yield (
        f"{values['trials']:,} trials, {values['pruned']:,} stopped early; least objective "
        f"{best_values['objective']:.4f} in trial {best_values['trial']}: {values['measure']} "
        f"{best_values['accuracy']:.2f} % on the held-out images, float {best_values['float_accuracy']:.2f} %, weights "
        f"{best_values['bytes']:,} bytes"
    )
    if values["budget_bytes"] is not None:
        found = ", ".join(f"{by} {each['objective']:.4f}" for by, each in values["best_of"].items())
        yield (
            f"packed weights {best_values['packed_bytes']:,} of {values['budget_bytes']:,} bytes, found by the "
            f"{best_values['found_by']}; least objectives: {found}"
        )
    for kind in ("weights", "features"):
        yield f"{kind}: " + ", ".join(f"{name} {value}" for name, value in best_values[kind].items())
    if values["test_accuracy"] is not None:
        found, floating = values["test_accuracy"], values["float_test_accuracy"]
        yield f"{values['measure']} {found:.2f} % on the test images, float {floating:.2f} %"
    yield f"{values['model']}: {values['model_bytes']:,} bytes, sha256 {values['sha256'][:12]}"
    if values["training"] is not None:
        yield f"{values['training']}: trains it on at these widths, by `edgemeta simulate train`"
    yield f"{folder / 'report.html'}: {len(values['front'])} networks on the Pareto front"


class _Shown(SearchObserver):
    """A bar for each part of the work, with the least objective so far and an estimate of the end."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._move: Move | None = None
        self._began = (0.0, 0)

    def stage(self, name: str) -> None:
        self._stack.close()
        self._move = self._stack.enter_context(progress_bar(name))
        self._began = (time.monotonic(), -1)

    def progress(self, done: int, total: int, best: float | None = None) -> None:
        if self._move is None:
            return
        begin, first = self._began
        if first < 0:  # a study may have trials already
            self._began = begin, done
        here, spent = done - self._began[1], time.monotonic() - begin
        left = f"about {in_words((total - done) * spent / here)} left" if here > 0 else ""
        least = "" if best is None else f"least objective {best:.4f}"
        self._move(done, total, ", ".join(filter(None, (least, left))))

    def remark(self, sentence: str) -> None:
        remark(sentence)
