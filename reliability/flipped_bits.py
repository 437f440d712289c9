"""Flipped bits in weights of the shipped networks: how many the self-test and the checksum detect.

    python reliability/flipped_bits.py --keep                 writes benchmarks/results/flipped-bits.json

Each time one bit of a weight tensor is flipped. The file is read as a faulty disk would return it; then, for the
self-test alone, its checksum is recomputed, as an attacker would do.
"""

import argparse
import json
import random
import struct
import sys

import numpy as np

from benchmarks.result_file import write_json
from edgemeta.model.checksum import BLANK, with_checksum
from edgemeta.model.errors import ModelError
from edgemeta.model.file import decode
from edgemeta.model.self_test import flat
from edgemeta.model.zoo import find, names
from edgemeta.plugins.registry import load


def main() -> None:
    """Flip, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=1000, help="flipped bits per network")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/flipped-bits.json")
    arguments = parser.parse_args()
    results = {name: measure(name, arguments.bits, arguments.seed) for name in names()}
    print(json.dumps(results, indent=2))
    if arguments.keep:
        write_json("flipped-bits", "python reliability/flipped_bits.py --keep", {"networks": results})
    if any(result["past_the_checksum"] for result in results.values()):
        sys.exit("a flipped bit got past the checksum")


def measure(name: str, bits: int, seed: int) -> dict[str, int]:
    """Count the flipped bits that get past each check; those that the proof of the model refuses count for neither."""
    data, generator = find(name).read_bytes(), random.Random(seed)
    counts = {"flipped": bits, "refused_by_proof": 0, "past_the_self_test": 0, "past_the_checksum": 0}
    spans = weights_of(data)
    for _ in range(bits):
        first, last = generator.choices(spans, [last - first for first, last in spans])[0]
        flipped = bytearray(data)
        flipped[generator.randrange(first, last)] ^= 1 << generator.randrange(8)
        try:
            decode(bytes(flipped))
            counts["past_the_checksum"] += 1
        except ModelError:
            pass
        place = flipped.index(b'"checksum":"') + len(b'"checksum":"')
        flipped[place : place + len(BLANK)] = BLANK.encode()
        try:
            counts["past_the_self_test"] += passes_self_test(with_checksum(bytes(flipped)))
        except ModelError:
            counts["refused_by_proof"] += 1
    return counts


def weights_of(data: bytes) -> list[tuple[int, int]]:
    """Where the weights lie in a file: first byte, and the one after the last, of each tensor."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    return [
        (8 + length + entry["data_offsets"][0], 8 + length + entry["data_offsets"][1])
        for name, entry in header.items()
        if name.endswith(".weights")
    ]


def passes_self_test(data: bytes) -> bool:
    """Whether a file's model gives the logits that the file says. Raises ModelError where it is none."""
    model = decode(data)
    assert model.self_test is not None
    session = load("cpu").compile(model, {})
    try:
        return bool(np.array_equal(flat(session.run(model.self_test.batch)), model.self_test.expected))
    finally:
        session.close()


if __name__ == "__main__":
    main()
