"""The report of a search: one HTML page with its table, its plots and what each layer costs."""

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from edgemeta.toolchain.charts import LineChart, Series
from edgemeta.toolchain.search.result import Outcome, best, front, outcomes
from edgemeta.toolchain.search.run import RESULT, Searched

_STYLE = (
    "body{font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;margin:1rem 0}"
    "td,th{padding:.2rem .7rem;border-bottom:1px solid #ddd;text-align:right}"
    "th:first-child,td:first-child{text-align:left}svg{max-width:100%;height:auto}"
)


_HEADS = {"microseconds": "µs", "warp_instructions": "warp instructions"}
_FORMATS = {"microseconds": "{:.1f}", "warp_instructions": "{:,.0f}"}


def html(searched: Searched, remarks: Sequence[str] = ()) -> str:
    """The page. remarks: on the chosen network."""
    return "\n".join(_page(searched, remarks)) + "\n"


def _page(searched: Searched, remarks: Sequence[str]) -> Iterator[str]:
    config, found = searched.config, outcomes(searched.trials)
    chosen, unbeaten = best(found), front(found)
    title = f"Search {config.name}"
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
    yield f"<style>{_STYLE}</style></head><body><h1>{escape(title)}</h1>"
    pruned = len(searched.trials) - len(found)
    factors = config.objective
    measure = searched.setup.judge.measure
    yield (
        f"<p>Network {escape(config.network)}, scheme {config.scheme}: {len(searched.trials):,} trials, {pruned:,} of "
        f"them stopped early. Accuracy is the {measure} of {config.images:,} held-out images, where the float network "
        f"has {chosen.float_accuracy:.2%}. C = {factors.alpha:g} |o − r| + {factors.beta:g} W<sub>b</sub>/W<sub>f</sub>"
        f" + {factors.gamma:g} q<sub>b</sub>/q<sub>f</sub>.</p>"
    )
    yield f"<h2>Least C: trial {chosen.trial}</h2>" + _table([chosen])
    yield from (f"<p>Remark: {escape(each)}.</p>" for each in remarks)
    if searched.budget is not None:
        by = {"assignment": "the assignment by sensitivities", "sampler": "the sampler"}[chosen.found_by]
        yield f"<p>Found by {by}: {chosen.packed_bytes:,} bytes packed, of at most {searched.budget:,}.</p>"
    yield _bits_chart(chosen).svg() + _bits_table(chosen)
    yield "<h2>Pareto front</h2><p>No other trial is as accurate, as small and as cheap.</p>" + _table(unbeaten)
    yield _front_chart(unbeaten).svg()
    yield "<h2>History</h2>" + _history(searched).svg()
    if searched.sensitivity:
        yield "<h2>Sensitivities</h2><p>Relative square error of the outputs that each number adds, in percent.</p>"
        yield _sensitivities(searched.sensitivity)
    yield "</body></html>"


def _table(rows: Sequence[Outcome]) -> str:
    goals = list(rows[0].device) if rows else []
    head = ["trial", "C", "accuracy %", "bytes of weights", "bit operations", *(_HEADS[goal] for goal in goals)]
    cells = [
        [
            str(each.trial),
            f"{each.objective:.4f}",
            f"{100 * each.accuracy:.2f}",
            f"{each.bytes:,}",
            f"{each.bit_operations:,}",
            *(_FORMATS[goal].format(each.device[goal]) for goal in goals),
        ]
        for each in rows
    ]
    return _rows(head, cells)


def _bits_table(chosen: Outcome) -> str:
    weights = _rows(["layer", "weights"], [[name, str(value)] for name, value in chosen.weights.items()])
    return weights + _rows(["feature map", "bits"], [[name, str(value)] for name, value in chosen.features.items()])


def _rows(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    first = "".join(f"<th>{escape(each)}</th>" for each in head)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in cells)
    return f"<table><tr>{first}</tr>{body}</table>"


def _bits_chart(chosen: Outcome) -> LineChart:
    weights = Series("weights", [(float(at), float(value)) for at, value in enumerate(chosen.weights.values(), 1)])
    maps = Series("feature maps", [(float(at), float(value)) for at, value in enumerate(chosen.features.values(), 1)])
    return LineChart("Bits", "layers, and feature maps, in order", "bits", [weights, maps], (0.0, 8.5))


def _front_chart(unbeaten: Sequence[Outcome]) -> LineChart:
    """Of the front, accuracy over bytes: for each size the best accuracy up to it."""
    points: list[tuple[float, float]] = []
    for each in unbeaten:
        if not points or each.accuracy > points[-1][1] / 100:
            points.append((each.bytes / 1000, 100 * each.accuracy))
    return LineChart("Pareto front", "weights, kB", "accuracy, %", [Series("accuracy", points)])


def _history(searched: Searched) -> LineChart:
    least, points = float("inf"), []
    for number, trial in enumerate(searched.trials, 1):
        if trial.values is not None and trial.user_attrs[RESULT]["images"] == searched.config.images:
            least = min(least, trial.user_attrs[RESULT]["objective"])
        points.append((float(number), least))
    return LineChart("Least C so far", "trials", "C", [Series("C", points)])


def _sensitivities(table: Mapping[str, Mapping[int, float]]) -> str:
    values = sorted({value for row in table.values() for value in row})
    cells = [
        [name, *(f"{100 * row[value]:.2f}" if value in row else "" for value in values)] for name, row in table.items()
    ]
    return _rows(["", *map(str, values)], cells)
