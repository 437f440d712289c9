"""Two tables of docs/boards.md: the fields of `edgemeta doctor`'s report, and the reports in benchmarks/results."""

import json
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from edgemeta.cli.doctor.report import DoctorReport

ROOT = Path(__file__).parent.parent
REPORTS = Path("benchmarks/results/boards")
COLLECTED, END = "<!-- boards: python -m tools.documents -->", "<!-- end -->"


def replaced(page: str) -> str:
    """The page with the table of reports renewed."""
    before, _, rest = page.partition(COLLECTED)
    return before + "\n".join((COLLECTED, *collected(ROOT / REPORTS), END)) + rest.partition(END)[2]


def fields() -> str:
    """A row for each field, in the order of the report."""
    rows = (f"| `{name}` | {text} |" for name, text in _rows(DoctorReport))
    return "\n".join(("| field | what it is |", "|---|---|", *rows))


def _rows(record: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, field in record.model_fields.items():
        below = next((kind for kind in _kinds(field.annotation)), None)
        if below is None:
            yield f"{prefix}{name}", field.description or ""
        else:
            is_list = "list" in str(field.annotation)
            yield from _rows(below, f"{prefix}{name}{'[]' if is_list else ''}.")


def _kinds(annotation: object) -> Iterator[type[BaseModel]]:
    for kind in (annotation, *getattr(annotation, "__args__", ())):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield kind


def collected(folder: Path) -> Iterator[str]:
    """A row for each report: those that are no report raise pydantic's error, which names the field."""
    yield from (
        "| board | processors | kernels | ResNet-8 | beside | video | day |",
        "|---|---|---|---:|---|---|---|",
    )
    for path in sorted(folder.glob("*.json")):
        report = DoctorReport.model_validate(json.loads(path.read_text("utf-8")))
        board, first = report.board, next(iter(report.speed), None)
        runs = sum(test.networks for test in report.kernels)
        differ = sum(len(test.differ) for test in report.kernels)
        isas = ", ".join(dict.fromkeys(test.isa for test in report.kernels if test.isa))
        time = "" if first is None or first.median_us is None else f"{first.median_us:,.1f} us"
        beside = ", ".join(f"{each.ratio:.2f} of {each.runtime}" for each in report.speed if each.ratio is not None)
        video = [f"{each.kind} {each.card}" for each in report.video if each.kind in ("camera", "decoder")]
        name = f"[{board.model or path.stem}](../{REPORTS}/{path.name})"
        kernels = f"{isas}: {runs:,} runs, {differ} differ"
        cells = (name, f"{board.cores} x {board.processor}", kernels, time, beside, ", ".join(video), report.date)
        yield f"| {' | '.join(cells)} |"
