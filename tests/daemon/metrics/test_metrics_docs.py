"""The table of metrics in the documents has exactly those that are exposed, in their order."""

from edgemeta.daemon.metrics.prometheus import families
from edgemeta.daemon.metrics.snapshot import MetricsSnapshot
from tools.metric_table import row, table


def test_every_metric_has_its_row(snapshot: MetricsSnapshot) -> None:
    expected = [row(family) for family in families(snapshot)]
    assert table().splitlines()[2:] == expected, "tools/metric_table.py lacks a sample"
    assert (
        "| `edgemeta_frames_dropped_total` | counter | `camera`, `reason` | Frames captured and dropped, by reason. |"
        in (expected)
    )
