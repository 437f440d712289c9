"""The model card of a trained detector: what it was made of, under which licences, and what it can do."""

from collections.abc import Mapping
from pathlib import Path

from edgemeta.model.graph import FloatModel
from edgemeta.model.yaml_file import read_entries
from edgemeta.toolchain.errors import DataError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.train.run_folder import save_text

_NOT_STATED = "not stated"


def read_licences(path: Path) -> dict[str, str]:
    """A YAML file with the licence of each source, by its name. Raises DataError."""
    entries, _ = read_entries(path, "the licences", DataError)
    if not isinstance(entries, dict) or not all(isinstance(text, str) for text in [*entries, *entries.values()]):
        raise DataError(f"{path}: is no list of texts by name, expected lines such as 'voc2012: CC BY 4.0'")
    return dict(entries)


def save_card(path: Path, model: FloatModel, figures: Mapping[str, Precision], licences: Mapping[str, str]) -> None:
    """Write the card as Markdown. figures: precision of each part that was measured."""
    made = model.provenance
    rows, columns, _ = model.input_shape
    lines = [
        f"# {model.name}",
        "",
        f"A detector of {columns}x{rows} pixels that finds {', '.join(model.labels)}.",
        f"It was trained on {made['train_images']} pictures with boxes and {made['unlabelled_images']} without.",
        "",
        "| source | pictures | licence |",
        "|---|---|---|",
    ]
    sources = made["sources"]
    assert isinstance(sources, dict)
    for source, count in sources.items():
        lines.append(f"| {source or 'the data set'} | {count} | {licences.get(source, _NOT_STATED)} |")
    for part in ("start", "teacher"):
        other = made.get(part)
        if isinstance(other, dict):
            licence = licences.get(str(other["name"]), _NOT_STATED)
            lines.append(f"| {part}: {other['name']} | the network | {licence} |")
    left_out = made["left_out"]
    if isinstance(left_out, list) and left_out:
        lines += ["", f"Left out: {', '.join(map(str, left_out))}."]
    for part, precision in figures.items():
        lines += [
            "",
            f"Average precision on {precision.images} pictures ({part}), at an overlap of 0.5 and as the mean of 0.5 "
            "to 0.95, as float32:",
            "",
            "| label | boxes | AP50 | AP |",
            "|---|---|---|---|",
        ]
        for each in (*precision.labels[::-1],):
            lines.append(f"| {each.label} | {each.boxes} | {100 * each.at_half:.1f} | {100 * each.mean:.1f} |")
        lines.append(f"| mean | | {100 * precision.at_half:.1f} | {100 * precision.mean:.1f} |")
    save_text(lines, path)
