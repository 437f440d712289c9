"""Records the ranges of a known network, model/known/ranges/NAME.json, from calibration images.

    python -m tools.record_ranges NAME FILE --calibrate PATH [--images N]

FILE is the network's own file. As `quantize` does, each rule for the ranges is tried on images that no range was made
for, and the one that agrees best with the float network is recorded; weights are not fitted (`refit.py`), so that the
record is all that somebody else needs for the same integers.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from edgemeta.cli.getting import made_of
from edgemeta.model.float_file import load_float_model
from edgemeta.model.known.registry import RANGES, known_network
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.calibration import DRAWN, Calibration, PreparedImages, WithDrawn
from edgemeta.toolchain.quantize.compare import Expected
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.folded import Choice
from edgemeta.toolchain.quantize.ranges import RANGE_RULES
from edgemeta.toolchain.quantize.recorded import Record


def main() -> None:
    """Read the command line, record and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("file", type=Path)
    parser.add_argument("--calibrate", type=Path, required=True)
    parser.add_argument("--images", type=int, default=100)
    arguments = parser.parse_args()
    path = RANGES / f"{arguments.name}.json"
    path.write_text(recorded(arguments.name, arguments.file, arguments.calibrate, arguments.images).text(), "utf-8")
    print(f"{path}: {path.stat().st_size:,} bytes")


def recorded(name: str, file: Path, calibrate: Path, images: int) -> Record:
    """The record of the best rule."""
    with TemporaryDirectory() as folder:
        made = Path(folder) / "float.safetensors"
        made.write_bytes(made_of(name, known_network(name), file, None, as_float=True)[0])
        model = load_float_model(made)
    events = Events()
    frames = WithDrawn(Calibration(calibrate, images).frames(events.left_out))
    prepared = Prepared(model, PreparedImages(model, frames), events, DRAWN)
    expected = Expected(model, prepared.judge, events.stage("float network"))
    tried = {}
    for rule in RANGE_RULES:
        lowering = prepared.builder(Choice(rule, "multiplier"))
        tried[rule] = expected.measure(lowering.build(), rule, events.stage("trying", rule)), lowering
        print(rule, tried[rule][0], flush=True)
    return Record.of(min(tried.values(), key=lambda each: each[0].distance)[1])


if __name__ == "__main__":
    main()
