"""The learning curves of a run: curves.png, and curves.html, one page that needs nothing else."""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from edgemeta.model.atomic_write import write_atomically
from edgemeta.toolchain.charts import LineChart, Series
from edgemeta.toolchain.number_formats.formats import name_of
from edgemeta.toolchain.progress import TrainingEvent, read_log
from edgemeta.toolchain.simulate.rules import ROLES
from edgemeta.toolchain.simulate.training.config import NetworkConfig, TrainingConfig

_STYLE = (
    "body{font:15px/1.5 sans-serif;max-width:820px;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}td,th{border:1px solid #ccc;padding:2px 10px;text-align:right}"
    "td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


def write_page(folder: Path, log: Path, config: TrainingConfig) -> None:
    """Draw the log's epochs into `folder`, each file whole or not at all; without an epoch, nothing."""
    epochs = finished_epochs(log)
    if not epochs:
        return
    accuracy, loss = charts(epochs)
    accuracy.save_png(folder / "curves.png")
    page = _page(folder.resolve().name, config, epochs, (accuracy, loss))
    write_atomically(folder / "curves.html", page.encode())


def finished_epochs(log: Path) -> list[TrainingEvent]:
    """The epochs in their order; of one that is logged twice, the newest line."""
    newest = {event.epoch: event for event in read_log(log)}
    return [newest[epoch] for epoch in sorted(newest)]


def charts(epochs: list[TrainingEvent]) -> tuple[LineChart, LineChart]:
    """Accuracy and loss by epoch."""
    accuracy = [(event.epoch, event.accuracy) for event in epochs if event.accuracy is not None]
    loss = [(event.epoch, event.loss) for event in epochs if event.loss is not None]
    return (
        LineChart("Accuracy by epoch", "epoch", "accuracy, %", [Series("test images", accuracy)]),
        LineChart("Loss by epoch", "epoch", "loss", [Series("training images", loss)]),
    )


def _page(name: str, config: TrainingConfig, epochs: list[TrainingEvent], drawn: tuple[LineChart, ...]) -> str:
    newest = epochs[-1]
    settings = [
        *((key, value) for key, value in config.model_dump(exclude={"network", "rules", "rounding"}).items()),
        ("network", _network(config)),
        ("rounding", f"{config.rounding.training} in training, {config.rounding.evaluation} in evaluation"),
    ]
    rules = [
        (", ".join(rule.layers), *("" if (kind := getattr(rule, role)) is None else name_of(kind) for role in ROLES))
        for rule in config.rules
    ]
    figures = [(event.epoch, _number(event.loss, 4), _number(event.accuracy, 2)) for event in epochs]
    return "".join(
        (
            f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(name)}</title>',
            f"<style>{_STYLE}</style></head><body><h1>{escape(name)}</h1>",
            f"<p>Epoch {newest.epoch} of {newest.epochs}.</p>",
            *(chart.svg() for chart in drawn),
            "<h2>Rules</h2>",
            _table(("layers", *ROLES), rules) if rules else "<p>None: float32.</p>",
            "<h2>Settings</h2>",
            _table(("setting", "value"), [(key, value) for key, value in settings if value is not None]),
            "<h2>Epochs</h2>",
            _table(("epoch", "loss", "accuracy %"), figures),
            "</body></html>\n",
        )
    )


def _table(head: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    lines = ["".join(f"<th>{escape(text)}</th>" for text in head)]
    lines += ["".join(f"<td>{escape(str(value))}</td>" for value in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _network(config: TrainingConfig) -> str:
    if config.network is None and config.start is not None:
        return f"that of {config.start}"
    network = config.network or NetworkConfig()
    return f"{network.family} {network.depth}, width {network.width:g}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"
