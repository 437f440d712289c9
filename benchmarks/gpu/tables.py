"""The results as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def markdown(record: Mapping[str, Any]) -> str:
    """Both tables and the failed parts; record: the content of the JSON file."""
    device = record["device"]
    parts = [
        f"{device['name']} ({device['architecture']}), driver {device['driver']}, kernels by {record['compiler']}. "
        f"{record['warm_ups']} warm-ups, medians of {record['runs']}, one process.",
        "## Proof",
        _proof(record["tests"]),
    ]
    if record["convolutions"]:
        parts += ["## Table 1: one convolution, microseconds on the device", convolution_table(record["convolutions"])]
    if record["networks"]:
        parts += [
            "## Table 2: ResNet-8, microseconds on the device, by batch",
            network_table(record["networks"], "device_us"),
            "## Table 2: ResNet-8, microseconds from host memory to host memory, by batch",
            network_table(record["networks"], "host_us"),
        ]
    left_out = {**record["failed"], **record["absent"]}
    if left_out:
        parts += ["## Not measured", "\n".join(f"- {part}: {reason}" for part, reason in left_out.items())]
    return "\n\n".join(parts)


def convolution_table(rows: Sequence[Row]) -> str:
    """Table 1: per layer the best tile of each kernel, and its time relative to the fastest."""
    lines = ["| layer | size | kernel | tile | us | times the fastest |", "|---|---|---|---|---:|---:|"]
    for row in rows:
        fastest = min(other["device_us"] for other in rows if other["layer"] == row["layer"])
        tile = ", ".join(f"{name} {size}" for name, size in row["tile"].items())
        times = f"{row['device_us'] / fastest:.2f}" if fastest > 0 else ""
        lines.append(
            f"| {row['layer']} | {row['size']} | {row['kernel']} | {tile} | {row['device_us']:.2f} | {times} |"
        )
    return "\n".join(lines)


def network_table(rows: Sequence[Row], column: str) -> str:
    """Table 2: a row per runtime and type, a column per batch size; a dash if a peer failed."""
    batches = sorted({row["batch"] for row in rows})
    lines = [
        "| runtime | type | " + " | ".join(f"{batch:,}" for batch in batches) + " |",
        "|---|---|" + "---:|" * len(batches),
    ]
    for runtime, kind in dict.fromkeys((row["runtime"], row["type"]) for row in rows):
        values = {row["batch"]: row.get(column) for row in rows if (row["runtime"], row["type"]) == (runtime, kind)}
        cells = ["–" if values.get(batch) is None else f"{values[batch]:.1f}" for batch in batches]
        lines.append(f"| {runtime} | {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _proof(tests: Row) -> str:
    if "failed_to_run" in tests:
        return f"The tests did not run: {tests['failed_to_run']}."
    names: dict[str, list[str]] = {}
    for name, outcome in tests["outcomes"].items():
        if outcome != "passed":
            names.setdefault(outcome, []).append(name)
    lines = [_line(outcome, those) for outcome, those in names.items()]
    return "\n".join([f"{tests['passed']} passed, {tests['failed']} failed, {tests['skipped']} skipped.", "", *lines])


def _line(outcome: str, names: Sequence[str]) -> str:
    others = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"- {names[0]}{others}: {outcome}"
