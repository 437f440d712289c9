"""Makes the model of every known network of its file, and measures it.

    python benchmarks/known_networks.py FOLDER --data FOLDER [--keep]    --keep writes results/known-networks.{md,json}

FOLDER holds the files of the registry under their own names; --data is the folder of test data (docs/test-data.md).
Printed are the digest that the registry should have, and a figure: of CIFAR-10's labels the share of right ones of its
10,000 test images; of visual wake words that of the COCO pictures, where a person of at least 0.5 % of a picture
counts; of other integer classifications on these pictures the share of LiteRT's labels for the same integers; of
detections of COCO's labels mean average precision there; of other float networks the difference from the file's own
runtime; of integer models by recorded ranges the objects above 0.3 that the float model finds, too, as F1.
"""

import argparse
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cv2
import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.cli.getting import made_of
from edgemeta.model.file import parse
from edgemeta.model.float_file import load_float_model
from edgemeta.model.float_reference import normalized, outputs
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.known.registry import KnownNetwork, Recorded, known_networks
from edgemeta.model.layers import Float32
from edgemeta.model.preprocess import look_up, placement, preprocess
from edgemeta.model.tasks import Detection
from edgemeta.plugins.registry import choose
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.tiles import in_frame
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from edgemeta.toolchain.evaluate.average_precision import mean_average_precision
from edgemeta.toolchain.evaluate.detection import least_scores
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.quantize.compare import Matches
from edgemeta.toolchain.quantize.image import image_input
from tests.toolchain.importer.litert import ReferenceKernels, largest_float_difference

SURE = 0.3
LEAST_PERSON = 0.005
"""Share of a picture, as in the visual wake words data set."""


@dataclass(frozen=True, eq=False)
class Pictures:
    """COCO pictures, uint8 [H, W, 3] each, B, G, R, and their boxes."""

    frames: tuple[NDArray[np.uint8], ...]
    boxes: BoxedImages

    @classmethod
    def of(cls, path: Path) -> "Pictures":
        """Those of a file of JPEG pictures."""
        data = np.load(path)
        parts = np.split(data["jpeg"], data["offsets"][1:-1])
        frames = tuple(np.asarray(cv2.imdecode(part, cv2.IMREAD_COLOR), np.uint8) for part in parts)
        plain = np.flatnonzero(~data["difficult"].astype(bool))
        numbers, classes = data["box_image"][plain].astype(np.int64), data["box_label"][plain].astype(np.int64)
        labels = tuple(str(label) for label in data["labels"])
        empty = np.zeros((len(frames), 1, 1, 3), np.uint8)
        return cls(frames, BoxedImages(empty, data["boxes"][plain], classes, numbers, labels))

    def has_person(self) -> list[bool]:
        """Whether a person of at least LEAST_PERSON is in each picture."""
        found = []
        for number, frame in enumerate(self.frames):
            boxes, classes = self.boxes.objects(number)
            sides = boxes[classes == self.boxes.labels.index("person")]
            areas = (sides[:, 2] - sides[:, 0]) * (sides[:, 3] - sides[:, 1])
            found.append(bool((areas >= LEAST_PERSON * frame.shape[0] * frame.shape[1]).any()))
        return found


def main() -> None:
    """Read the command line, make and measure each network, print and keep the figures; exit 1 for another digest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keep", action="store_true", help="write the result files")
    arguments = parser.parse_args()
    pictures, rows = Pictures.of(arguments.data / "detection" / "coco_val.npz"), list[Row]()
    for name, network in known_networks().items():
        path = arguments.folder / network.file.name
        labels = None if network.labels is None else arguments.folder / network.labels.name
        content, _ = made_of(name, network, path, labels, as_float=True)
        figure = figure_of(content, network, path, pictures, arguments.data)
        rows.append(Row(name, network.gives, network, digest_of(content), figure))
        if network.recorded is not None:
            integers, _ = made_of(name, network, path, labels)
            figure = recorded_figure(integers, content, pictures)
            rows.append(Row(name, "integer", network.recorded, digest_of(integers), figure))
        for row in rows[-2 if network.recorded else -1 :]:
            print(name, row.gives, row.digest, row.figure, sep="  ", flush=True)
    if arguments.keep:
        command = "python benchmarks/known_networks.py FOLDER --data FOLDER --keep"
        values = [{"name": row.name, "model": row.gives, "digest": row.digest, "figure": row.figure} for row in rows]
        write_json("known-networks", command, {"networks": values})
        write_markdown("known-networks", command, table(rows))
    if other := [f"{row.name} ({row.gives})" for row in rows if not row.is_stated]:
        raise SystemExit(f"the registry states another digest or figure for {', '.join(other)}")


@dataclass(frozen=True)
class Row:
    """A model that was made of an entry. stated: what the registry says of it."""

    name: str
    gives: str
    stated: KnownNetwork | Recorded
    digest: str
    figure: str

    @property
    def is_stated(self) -> bool:
        """Whether the registry says the same."""
        return (self.digest, self.figure) == (self.stated.digest, self.stated.accuracy.figure)


def digest_of(content: bytes) -> str:
    """SHA-256 of a model file."""
    return hashlib.sha256(content).hexdigest()


def table(rows: list[Row]) -> str:
    """A line for each model."""
    lines = []
    for row in rows:
        network = known_networks()[row.name]
        size = f"{network.file.size / 1e6:.1f} MB"
        lines.append(f"| `{row.name}` | {network.what} | {size} | {row.gives} | {row.figure} |")
    return "\n".join(["| name | network | file | model | measured |", "|---|---|---|---|---|", *lines, ""])


def figure_of(content: bytes, network: KnownNetwork, path: Path, pictures: Pictures, data: Path) -> str:
    """The accuracy of a network's model, as the sentence that the registry holds."""
    if network.gives == "float":
        return float_figure(content, path, pictures)
    model = parse(content, path)
    if isinstance(model.task, Detection):
        return precision(integer_objects(model, pictures), pictures)
    if model.labels == CIFAR10_LABELS:
        test = load_dataset(data / "cifar10" / "test.npz", "test", labels=CIFAR10_LABELS)
        found = labels_of(model, look_up(model.preprocessing.table, test.x))
        return f"{np.mean(found == test.y):.2%} of CIFAR-10's test images right"
    images = np.stack([preprocess(frame, model.input, model.preprocessing) for frame in pictures.frames])
    found = labels_of(model, images)
    count = f"{len(images)} COCO pictures"
    if "person" in model.labels:
        return f"person or not right in {np.mean((found == 1) == pictures.has_person()):.0%} of {count}"
    kernels, wanted = ReferenceKernels(path), []
    for image in images:
        kernels(image[np.newaxis])
        wanted.append(int(kernels.tensor(kernels.network.outputs[0]).argmax()))
    return f"the label of LiteRT's reference kernels in {np.mean(found == wanted):.0%} of {count}"


def labels_of(model: Model, images: NDArray[Any]) -> NDArray[np.int64]:
    """The number of the label of each image [N, H, W, C], int64 [N]."""
    with closing(choose("cpu").compile(model, {})) as session:
        return np.array([int(session.run(image[np.newaxis])[0].argmax()) for image in images])


def float_figure(content: bytes, path: Path, pictures: Pictures) -> str:
    """Mean average precision of a detection of COCO's labels; of others the difference from the file's runtime."""
    if path.suffix == ".tflite":
        return f"within {at_most(largest_float_difference(path))} of LiteRT, as a share of the output's range"
    model = float_model(content)
    assert isinstance(model.task, Detection)
    if model.task.labels == COCO:
        return precision(float_objects(model, pictures), pictures)
    return f"within {at_most(onnx_difference(path, model))} of ONNX Runtime, as a share of the output's range"


def at_most(difference: float) -> str:
    """The next power of ten: the last digits of float sums are another machine's."""
    return f"{10.0 ** np.ceil(np.log10(difference)):.0e}"


def float_model(content: bytes) -> FloatModel:
    """The float model of a file's content."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "model.safetensors"
        file.write_bytes(content)
        return load_float_model(file)


def recorded_figure(integers: bytes, floats: bytes, pictures: Pictures) -> str:
    """Mean average precision of a detection of COCO's labels; of others the objects that its float model finds, too."""
    integer, wanted = parse(integers, Path("model.safetensors")), float_model(floats)
    assert isinstance(integer.task, Detection)
    if integer.task.labels == COCO:
        return precision(integer_objects(integer, pictures), pictures)
    matches = Matches()
    for pair in zip(float_objects(wanted, pictures), integer_objects(integer, pictures), strict=True):
        matches.add(*([each for each in objects if each.score >= SURE] for objects in pair))
    return f"F1 of objects above {SURE} {matches.f1:.1%} of the float model's in {len(pictures.frames)} COCO pictures"


def onnx_difference(path: Path, model: FloatModel, names: Sequence[str] = ()) -> float:
    """Between a float model's outputs and the same tensors of its file, for random pixels as the network takes them.

    names: of the tensors, in the order of the outputs, where they are others.
    """
    names = names or model.outputs
    proto = onnx.load(str(path))
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.helper.make_empty_tensor_value_info(name) for name in names)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # weights among the inputs
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    real = normalized(model, np.random.default_rng(0).integers(0, 256, (1, *model.input_shape)).astype(np.uint8))
    image = np.ascontiguousarray(real.transpose(0, 3, 1, 2))
    wanted = session.run(list(names), {session.get_inputs()[0].name: image})
    pairs = zip(outputs(model, real), wanted, strict=True)
    return max(float(np.abs(a - b.transpose(0, 2, 3, 1)).max() / np.ptp(b)) for a, b in pairs)


def precision(objects: Iterable[tuple[Object, ...]], pictures: Pictures) -> str:
    """Mean average precision of the objects in each picture whose labels are COCO's."""
    known = [[each for each in some if each.label in pictures.boxes.labels] for some in objects]
    found = mean_average_precision(known, pictures.boxes)
    return f"mAP {found.at_half:.1%} (0.5), {found.mean:.1%} (0.5 to 0.95) in {found.images} COCO pictures"


def float_objects(model: FloatModel, pictures: Pictures) -> Iterator[tuple[Object, ...]]:
    """The objects of each picture, in its pixels."""
    detector, wanted = FloatDetector(model, least_scores(model.task)), image_input(model)
    for frame in pictures.frames:
        integers = preprocess(frame, wanted.input, wanted.preprocessing)[np.newaxis]
        real: Float32 = (integers.astype(np.float32) - wanted.input.zero_point) * np.float32(wanted.input.scale)
        place = placement(wanted.preprocessing, wanted.input, frame.shape)
        yield in_frame(detector.objects(outputs(model, real)), place)


def integer_objects(model: Model, pictures: Pictures) -> Iterator[tuple[Object, ...]]:
    """The same of an integer model. Each label is asked for by itself, as for the float model's and by `eval`."""
    detector = Detector(model, least_scores(model.task), outlines=False, by_label=True)
    with closing(choose("cpu").compile(model, {})) as session:
        for frame in pictures.frames:
            found = session.run(preprocess(frame, model.input, model.preprocessing)[np.newaxis])
            objects = detector.objects(tuple(each[0] for each in found))
            yield in_frame(objects, placement(model.preprocessing, model.input, frame.shape))


if __name__ == "__main__":
    main()
