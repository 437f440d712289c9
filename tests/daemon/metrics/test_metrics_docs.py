"""docs/metrics.md has exactly the metrics that are exposed, in their order, with type, labels and meaning."""

from pathlib import Path

from prometheus_client import Metric

from edgemeta.daemon.metrics.prometheus import families
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot

SUFFIXES = {"counter": "_total", "info": "_info"}


def row(family: Metric) -> str:
    labels = sorted({name for sample in family.samples for name in sample.labels} - {"le"})
    listed = ", ".join(f"`{label}`" for label in labels)
    kind = "gauge" if family.type == "info" else family.type
    return f"| `{family.name}{SUFFIXES.get(family.type, '')}` | {kind} | {listed} | {family.documentation} |"


def test_every_metric_has_its_row(repository: Path, snapshot: MetricsSnapshot) -> None:
    text = (repository / "docs" / "metrics.md").read_text("utf-8")
    _, _, table = text.partition("| metric | type | labels | what it says |\n|---|---|---|---|\n")
    expected = [row(family) for family in families(snapshot)]
    assert table.split("\n\n")[0].splitlines() == expected, "the table should be:\n" + "\n".join(expected)
