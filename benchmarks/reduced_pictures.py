r"""What pictures that are decoded smaller (`reduce`) cost in accuracy; writes results/reduced-pictures.{json,md}.

    python benchmarks/reduced_pictures.py --pictures coco_val.npz \
        --models people-vehicles-animals yolox-nano.safetensors --keep

The labelled photographs of an archive (docs/test-data.md: detection/coco_val.npz, longer side at most 640) become what
a camera sends, YUV 4:2:0, and then what the process of a stream makes of it with `reduce: 1`, `2` and `4`, by the
service's own function. From there on all is as in the service: the network's input is made by area averages. Precision:
average precision at an overlap of one half, in percent, of the labels that model and archive share. *Asked for by
`auto`* is what `reduce: auto` would choose for most of the pictures. ±: the standard error of a difference, from 20
draws of as many pictures with replacement, the same ones for both.
"""

import argparse
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from av.video.frame import VideoFrame

from benchmarks.result_file import write_json, write_markdown
from edgemeta.cli.options import load_model
from edgemeta.daemon.capture.reduction import reduction_of
from edgemeta.daemon.capture.sources.stream.decoder import BgrConverter
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.model.graph import Model
from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.boxes.opened import open_boxed_pictures
from edgemeta.toolchain.data.boxes.pictures import BoxedPictures, ReadPicture, ReadPictures
from edgemeta.toolchain.evaluate.average_precision import mean_average_precision
from edgemeta.toolchain.evaluate.detection import finder, objects_in
from edgemeta.toolchain.quantize.run import integer_session

COMMAND = (
    "python benchmarks/reduced_pictures.py --pictures coco_val.npz "
    "--models people-vehicles-animals yolox-nano.safetensors --keep"
)
DIVISORS, DRAWS, LONGEST = (1, 2, 4), 20, 1 << 16


def of_model(pictures: BoxedPictures, model: Model) -> ReadPictures:
    """The pictures with the boxes of the labels that the model has, too."""
    places = np.array([model.labels.index(label) if label in model.labels else -1 for label in pictures.labels])
    known = np.isin(model.labels, pictures.labels)
    made = []
    for each in pictures.read(LONGEST).pictures:
        kept = places[each.classes] >= 0
        boxes = replace(each, boxes=each.boxes[kept], classes=places[each.classes[kept]], known=known)
        made.append(replace(boxes, difficult=each.difficult[kept]))
    return ReadPictures(model.labels, tuple(made))


def decoded(picture: ReadPicture, divisor: int) -> ReadPicture:
    """The picture as a stream's process gives it, its boxes in its pixels."""
    height, width = (side // 2 * 2 for side in picture.pixels.shape[:2])
    whole = VideoFrame.from_ndarray(np.ascontiguousarray(picture.pixels[:height, :width]), "rgb24")
    small = BgrConverter().convert(whole.reformat(format="yuv420p"), divisor).to_ndarray()
    scale = np.array([small.shape[1] / width, small.shape[0] / height] * 2, np.float32)
    return replace(picture, pixels=np.ascontiguousarray(small[..., ::-1]), boxes=picture.boxes * scale)


def chosen(pictures: ReadPictures, model: Model) -> int:
    """What `reduce: auto` chooses for most of the pictures."""
    reduction = reduction_of(CameraConfig.model_validate({"source": "rtsp://camera/1", "reduce": "auto"}), model)
    sizes = [each.pixels.shape for each in pictures.pictures]
    return Counter(reduction.divisor(width, height) for height, width, _ in sizes).most_common(1)[0][0]


def precision(found: list[tuple[Object, ...]], images: BoxedImages, numbers: np.ndarray[Any, Any]) -> float:
    """The precision of some of the images [n], in percent."""
    return 100 * mean_average_precision([found[i] for i in numbers.tolist()], images.take(numbers)).at_half


def measure(model: Model, archive: Path) -> dict[str, Any]:
    """The precision with each divisor, and its difference to the whole pictures."""
    pictures = of_model(open_boxed_pictures(archive), model)
    found, images = {}, {}
    with closing(integer_session(model)) as session:
        for divisor in DIVISORS:
            small = ReadPictures(pictures.labels, tuple(decoded(each, divisor) for each in pictures.pictures))
            images[divisor] = small.letterboxed(model.input.shape[:2], 128)
            found[divisor] = objects_in(images[divisor], model, finder(model, session), lambda *_: None)
    rng = np.random.default_rng(109)
    every = np.arange(len(pictures))
    draws = [rng.integers(0, len(every), len(every)) for _ in range(DRAWS)]
    precisions = {
        divisor: [precision(found[divisor], images[divisor], draw) for draw in (every, *draws)] for divisor in DIVISORS
    }
    rows = {}
    for divisor in DIVISORS:
        differences = np.subtract(precisions[divisor], precisions[1])
        rows[str(divisor)] = {
            "map50": round(precisions[divisor][0], 1),
            "difference": round(float(differences[0]), 1),
            "standard_error": round(float(differences[1:].std()), 1),
        }
    side = model.input.shape[0]
    asked = {"model": model.name, "sha256": model.digest, "input": side, "auto": chosen(pictures, model)}
    return asked | {"pictures": len(pictures), "boxes": len(images[1].boxes), "divisors": rows}


def table(rows: list[dict[str, Any]]) -> str:
    """The figures as text."""
    lines = [
        "| model (input) | pictures, boxes | `reduce` | mAP50 | difference to whole pictures | asked for by `auto` |",
        "|---|---|---:|---:|---:|---|",
    ]
    for each in rows:
        for divisor, values in each["divisors"].items():
            lines.append(
                f"| {each['model']} ({each['input']}) | {each['pictures']}, {each['boxes']} | {divisor} "
                f"| {values['map50']:.1f} | {values['difference']:+.1f} ± {values['standard_error']:.1f} "
                f"| {'yes' if int(divisor) == each['auto'] else ''} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Read the command line, measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, required=True, help="an archive of pictures with boxes")
    parser.add_argument("--models", nargs="+", default=["people-vehicles-animals"], help="integer detectors")
    parser.add_argument("--keep", action="store_true", help="write into benchmarks/results")
    arguments = parser.parse_args()
    rows = [measure(load_model(model), arguments.pictures) for model in arguments.models]
    print(table(rows))
    if arguments.keep:
        write_json("reduced-pictures", COMMAND, {"models": rows})
        write_markdown("reduced-pictures", COMMAND, table(rows))


if __name__ == "__main__":
    main()
