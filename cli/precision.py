"""Mean average precision as JSON and as text."""

from collections.abc import Iterator

from edgemeta.toolchain.evaluate.average_precision import Precision


def precision_values(precision: Precision) -> dict[str, object]:
    """In percent."""
    return {
        "map50": round(100 * precision.at_half, 4),
        "map": round(100 * precision.mean, 4),
        "labels": {
            each.label: {"ap50": round(100 * each.at_half, 4), "ap": round(100 * each.mean, 4), "boxes": each.boxes}
            for each in precision.labels
        },
    }


def precision_lines(precision: Precision) -> Iterator[str]:
    """In percent, label by label."""
    half, mean = 100 * precision.at_half, 100 * precision.mean
    yield f"mean average precision {half:.2f} % (IoU 0.5), {mean:.2f} % (IoU 0.5:0.95); by label:"
    width = max((len(each.label) for each in precision.labels), default=0)
    for each in precision.labels:
        yield f"  {each.label:<{width}}  {100 * each.at_half:6.2f} %  {100 * each.mean:6.2f} %  of {each.boxes:,} boxes"
