"""How soon a search of ResNet-8's binary bases and feature bits finds what others find with ten times the work.

    python benchmarks/search_quality.py --data PATH [--seeds 1 2 3 4 5] [--trials 1000]

For each seed: random search and plain successive halving (random proposals, no sensitivities) with all their trials,
and `edgemeta search` as it is, until its runs have seen a tenth of the images that the trials of random search see. Its
sensitivities count. Prints the least C of each and writes results/search-quality.json and .md after each seed, into
--folder or benchmarks/results; seeds that an earlier command with the same number of trials wrote there stay. Exits
with 1 if the search is worse than one of the others anywhere.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.result_file import RESULTS, write_json, write_markdown
from edgemeta.toolchain.search.config import SearchConfig, load_search
from edgemeta.toolchain.search.result import outcomes
from edgemeta.toolchain.search.run import RESULT, Searched, SearchObserver, search

NAME = "search-quality"
CONFIG = Path(__file__).parent.parent / "configs" / "search" / "resnet8-binary.yaml"
SHARE = 0.1


def main() -> None:
    """Search, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="labelled images")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--trials", type=int, default=1000, help="of random search and successive halving")
    parser.add_argument("--folder", type=Path, default=RESULTS, help="where to write")
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        runs = record(compared(chosen.data, seed, chosen.trials), chosen.trials, chosen.folder)
    print(table(runs))
    sys.exit(any(run["search"] > min(run["random"], run["halving"]) for run in runs))


def record(run: Mapping[str, Any], trials: int, folder: Path) -> list[Mapping[str, Any]]:
    """Write the comparison of a seed beside those of the others; returns all, by seed."""
    path = folder / f"{NAME}.json"
    written = json.loads(path.read_text("utf-8")) if path.exists() else {}
    others = written["runs"] if written.get("trials") == trials else []
    kept = [other for other in others if other["seed"] != run["seed"]]
    runs = sorted([*kept, run], key=lambda each: int(each["seed"]))
    seeds = " ".join(str(each["seed"]) for each in runs)
    command = f"python benchmarks/search_quality.py --data TRAIN --trials {trials} --seeds {seeds}"
    write_json(NAME, command, {"trials": trials, "runs": runs}, folder)
    text = f"Least C after {trials:,} trials; the search stops at a tenth of random search's images."
    write_markdown(NAME, command, f"{text}\n\n{table(runs)}", folder)
    return runs


def table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown, a row for each seed."""
    rows = ["| seed | random | successive halving | search | images of these |", "|---:|---:|---:|---:|---:|"]
    for run in runs:
        images = ", ".join(f"{run[f'{name}_images']:,}" for name in ("random", "halving", "search"))
        rows.append(f"| {run['seed']} | {run['random']:.4f} | {run['halving']:.4f} | {run['search']:.4f} | {images} |")
    return "\n".join(rows)


def compared(data: str, seed: int, trials: int) -> dict[str, Any]:
    """The least C of each kind of search for a seed."""
    plain = {"sensitivity": 0, "seeds": 0, "sampler": "random", "trials": trials}
    whole = least(searched(load_search(CONFIG, data=data, seed=seed, **plain, rungs=[])))
    halving = least(searched(load_search(CONFIG, data=data, seed=seed, **plain)))
    config = load_search(CONFIG, data=data, seed=seed)
    budget = SHARE * trials * config.images
    ours = least(searched(config.model_copy(update={"trials": _enough(config, budget)})), budget)
    names = zip(("random", "halving", "search"), (whole, halving, ours), strict=True)
    found: dict[str, Any] = {"seed": seed}
    for name, (value, images) in names:
        found |= {name: round(value, 6), f"{name}_images": images}
    print(found, file=sys.stderr, flush=True)
    return found


def _enough(config: SearchConfig, budget: float) -> int:
    """Trials that certainly use up a budget of images: each sees at least those of the first rung."""
    return int(budget / config.steps[0].images) + 1


def searched(config: SearchConfig) -> Searched:
    """One worker's search in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        return search(config, Path(folder), SearchObserver())


def least(done: Searched, budget: float = float("inf")) -> tuple[float, int]:
    """The least C of the trials within a budget of images, and the images that these trials and what was before saw."""
    complete = {each.trial: each.objective for each in outcomes(done.trials)}
    images = done.evaluated - sum(trial.user_attrs[RESULT]["images"] for trial in done.trials)
    best = float("inf")
    for trial in done.trials:
        if images + trial.user_attrs[RESULT]["images"] > budget:
            break
        images += trial.user_attrs[RESULT]["images"]
        best = min(best, complete.get(trial.number, best))
    return best, images


if __name__ == "__main__":
    main()
