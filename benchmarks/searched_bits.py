"""What a search of bits is worth beside the same number of bits everywhere, for a classification or a detection.

    python benchmarks/searched_bits.py --config configs/search/yolov3-tiny-binary.yaml --network FLOAT --data PATH \
        --test PATH --folder RUN [--trials N] [--uniform 6 8]

Runs the search of the config, or continues it, and measures its network and those of one number of bits everywhere: C
and accuracy on the held-out images that judge trials, and accuracy on the test images, which chose nothing. Prints a
table and writes results/searched-NAME.json and .md, NAME that of the config. Exits with 1 unless the searched network
is smaller than all others in weights and in feature maps, has a lower C, and at least the test accuracy of the most
bits less one point.
"""

import argparse
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.toolchain.quantize.bit_network import Bits
from edgemeta.toolchain.search.config import load_search
from edgemeta.toolchain.search.evaluator import Evaluator
from edgemeta.toolchain.search.objective import Costs, objective
from edgemeta.toolchain.search.result import best, outcomes
from edgemeta.toolchain.search.run import Searched, search

MOST_POINTS = 1.0


def main() -> None:
    """Search, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, required=True, help="of the search")
    parser.add_argument("--network", help="float model, in place of the config's")
    parser.add_argument("--data", required=True, help="labelled images, or images with boxes")
    parser.add_argument("--test", type=Path, required=True, help="test images")
    parser.add_argument("--folder", type=Path, required=True, help="for the search's trials")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--uniform", type=int, nargs="+", default=[6, 8], help="numbers of bits that are everywhere")
    chosen = parser.parse_args()
    config = load_search(chosen.config, network=chosen.network, data=chosen.data, trials=chosen.trials)
    chosen.folder.mkdir(parents=True, exist_ok=True)
    searched = search(config, chosen.folder)
    network = searched.setup.network
    found = {f"all {bits}": figures(searched, network.uniform(bits, bits), chosen.test) for bits in chosen.uniform}
    outcome = best(outcomes(searched.trials))
    found["searched"] = figures(searched, outcome.bits, chosen.test)
    text = "\n".join(table(found))
    print(text)
    measure = searched.setup.judge.measure
    head = (
        f"{network.model.name} under scheme `{config.scheme}`, {len(searched.trials):,} trials. Accuracy is {measure}: "
        f"of {config.images:,} held-out images, and of the test images, where the float network has "
        f"{found['searched']['float_test']:.2f} %. C is that of the held-out images."
    )
    command = (
        f"python benchmarks/searched_bits.py --config {chosen.config} --network FLOAT --data TRAIN --test TEST "
        f"--folder RUN --trials {config.trials}"
    )
    values = {
        "measure": measure,
        "network": dict(network.model.provenance) | {"name": network.model.name},
        "trials": len(searched.trials),
        "weights": dict(outcome.weights),
        "features": dict(outcome.features),
        "networks": found,
    }
    write_json(f"searched-{config.name}", command, values)
    write_markdown(f"searched-{config.name}", command, f"{head}\n\n{text}\n\n{chosen_bits(outcome.bits)}")
    sys.exit(not is_better(found))


def figures(searched: Searched, bits: Bits, test: Path) -> dict[str, Any]:
    """Of one network: sizes as shares, bytes, accuracies in percent, C."""
    config, setup = searched.config, searched.setup
    model, sizes = setup.build(bits, config.steps[-1].epochs), Costs(setup.network).of(bits)
    evaluator = Evaluator(setup.network.model, setup.judge)
    with closing(evaluator.run(model)) as running:
        accuracy = running.accuracy(config.images)
    floating = evaluator.float_accuracy(config.images)
    tested = setup.judge.tested(setup.network.model, model, test, print)
    return {
        "weights": round(sizes.weights, 5),
        "features": round(sizes.features, 5),
        "bytes": sizes.bytes,
        "objective": round(objective(config.objective, floating, accuracy, sizes), 5),
        "accuracy": round(100 * accuracy, 3),
        "float_accuracy": round(100 * floating, 3),
        "test": round(100 * tested.accuracy, 3),
        "float_test": round(100 * tested.float_accuracy, 3),
    }


def table(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Markdown, a row for each network."""
    rows = [
        "| bits | weights, kB | Wb/Wf | qb/qf | C | held-out images, % | test images, % |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in found.items():
        sizes = f"{each['bytes'] / 1000:.1f} | {each['weights']:.4f} | {each['features']:.4f}"
        rows.append(f"| {name} | {sizes} | {each['objective']:.4f} | {each['accuracy']:.2f} | {each['test']:.2f} |")
    return rows


def chosen_bits(bits: Bits) -> str:
    """The searched numbers in a sentence."""
    weights = ", ".join(f"{name} {value}" for name, value in bits.weights.items())
    maps = ", ".join(f"{name} {value}" for name, value in bits.maps.items())
    return f"Searched: weights {weights}; feature maps {maps}."


def is_better(found: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the searched network is smaller and better by C than the others, and hardly less accurate."""
    searched = found["searched"]
    others = [each for name, each in found.items() if name != "searched"]
    smaller = all(searched[key] < each[key] for each in others for key in ("weights", "features", "objective"))
    return smaller and searched["test"] >= others[-1]["test"] - MOST_POINTS


if __name__ == "__main__":
    main()
