"""The mean of the weights of two float models of one network, as in "model soups" (Wortsman et al. 2022).

    python -m tools.mean_weights FIRST SECOND --out FLOAT

SECOND is a training that started from FIRST. Filters, biases and moments of batch norms are averaged; name, task and
preprocessing are those of SECOND, whose provenance gains the digests of both and loses what was measured.
"""

import argparse
import hashlib
from dataclasses import fields, replace
from pathlib import Path

import numpy as np

from edgemeta.model.float_file import load_float_model, save_float_model
from edgemeta.model.graph import FloatModel


def mean(first: FloatModel, second: FloatModel) -> FloatModel:
    """`second` with the mean of both in every array of its layers. Raises SystemExit for another network."""
    if [(each.name, type(each)) for each in first.layers] != [(each.name, type(each)) for each in second.layers]:
        raise SystemExit(f"{first.name} and {second.name} have other layers, expected those of one network")
    layers = []
    for own, other in zip(second.layers, first.layers, strict=True):
        arrays = {each.name: getattr(own, each.name) for each in fields(own)}
        halves = {
            name: ((array + getattr(other, name)) / 2).astype(array.dtype)
            for name, array in arrays.items()
            if isinstance(array, np.ndarray)
        }
        layers.append(replace(own, **halves) if halves else own)
    return replace(second, layers=tuple(layers))


def main() -> None:
    """Read both, write the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, type=Path, metavar="FLOAT", help="a float model")
    parser.add_argument("--out", type=Path, required=True, help="the float model to write")
    arguments = parser.parse_args()
    found = mean(*(load_float_model(file) for file in arguments.files))
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in arguments.files]
    kept = {name: value for name, value in found.provenance.items() if not name.endswith(("_map50", "_map", "epoch"))}
    save_float_model(replace(found, provenance={**kept, "mean_of": digests}), arguments.out)


if __name__ == "__main__":
    main()
