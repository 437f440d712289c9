"""An incremental quantization from labelled images to the integer model: split, retraining, ranges, measurement."""

from pathlib import Path

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Weighted
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.data.split import SPLIT_SEED, held_out
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.imitation import PictureParts, imitation, with_norms, without_norm
from edgemeta.toolchain.incremental.network import PartlyFrozen
from edgemeta.toolchain.incremental.retrain import distillation, retrain
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibration import DATASET_IMAGES, PreparedImages
from edgemeta.toolchain.quantize.multiplier_free import multiplier_free
from edgemeta.toolchain.quantize.ranges import Statistics
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import ImageBank
from edgemeta.toolchain.train.checkpoint import RunIdentity, weights_digest
from edgemeta.toolchain.train.loop import Trained
from edgemeta.toolchain.train.run_folder import data_digest
from edgemeta.toolchain.train.start import require_trainable
from edgemeta.toolchain.train.student import DistillationData
from edgemeta.toolchain.train.targets import live_target

CHECKPOINT, LOG = "network.pt", "log.jsonl"
"""Files of a run in its folder."""
NORM_IMAGES = 32
"""Pictures for the statistics of added batch norms."""


def retrained(
    model: FloatModel,
    settings: IncrementalSettings,
    train: Dataset,
    folder: Path,
    *,
    alternates: Alternates | None = None,
    progress: ProgressCallback | None = None,
) -> Trained[PartlyFrozen]:
    """Run all steps in a folder (continued if it has a checkpoint) on the images that are not held out.

    The targets are the float network's logits of each view. Raises QuantizeError for images that do not fit, and
    CheckpointError for a checkpoint of another run.
    """
    _check(model, settings, train)
    chain, teacher = TorchNetwork(model), TorchNetwork(model)
    part, measured = parts(train, settings)
    bank = ImageBank(part.x, settings.pad)
    if alternates is not None:
        kept = alternates.of(~held_out(train, settings.held_out, SPLIT_SEED))
        bank = ImageBank(part.x, settings.pad, kept.x, kept.index)
    target = live_target([teacher], settings.all_epochs * (len(part) // settings.batch))
    goal = distillation(DistillationData(part, bank, target, measured), settings)
    identity = RunIdentity(
        settings.digest(weights_digest(teacher)),
        data_digest(train) if alternates is None else data_digest(train, alternates),
    )
    network = PartlyFrozen(chain, settings.widths or settings.bits, settings.exponents, without_norm(model))
    return retrain(network, settings, goal, folder / CHECKPOINT, identity, Reporter(folder / LOG, progress))


def imitated(
    model: FloatModel,
    settings: IncrementalSettings,
    images: PictureParts,
    folder: Path,
    progress: ProgressCallback | None = None,
) -> Trained[PartlyFrozen]:
    """As `retrained`, of any network and its pictures without labels: `imitation`."""
    goal = imitation(model, images, settings)
    chain = TorchNetwork(with_norms(model, images.batches(images.learned[:NORM_IMAGES], goal.batch)))
    identity = RunIdentity(settings.digest(weights_digest(TorchNetwork(model))), images.sha256())
    network = PartlyFrozen(chain, settings.widths or settings.bits, settings.exponents, without_norm(model))
    return retrain(network, settings, goal, folder / CHECKPOINT, identity, Reporter(folder / LOG, progress))


def integer_network(
    network: PartlyFrozen, images: PreparedImages, stage: Progress | None = None
) -> tuple[Model, FloatModel]:
    """The integer model of a network whose weights are all frozen, and the same network as a float graph.

    images: for the ranges of its tensors.
    """
    floats, names = network.chain.written(), network.chain.module_names
    weights = {
        layer.name: network.projections[names[layer.name]].stored(layer.real_weights)
        for layer in floats.layers
        if isinstance(layer, Weighted)
    }
    statistics = Statistics(floats, blocks_of(floats), images, stage)
    return multiplier_free(floats, weights, statistics), floats


def range_images(
    model: FloatModel, train: Dataset, settings: IncrementalSettings, stage: Progress | None = None
) -> PreparedImages:
    """Training images for the ranges of tensors, where no others are given."""
    part, _ = parts(train, settings)
    return PreparedImages(model, ArrayFrames(part.balanced(DATASET_IMAGES).x, "the training images"), stage)


def parts(train: Dataset, settings: IncrementalSettings) -> tuple[Dataset, Dataset]:
    """What is trained on, and what is only measured."""
    out = held_out(train, settings.held_out, SPLIT_SEED)
    return train.take(~out), train.take(out)


def _check(model: FloatModel, settings: IncrementalSettings, train: Dataset) -> None:
    require_trainable(model, model.name)
    if train.x.shape[1:] != model.input_shape:
        raise QuantizeError(f"the training images are {train.x.shape[1:]}, expected {model.input_shape}")
    if train.labels != model.labels:
        raise QuantizeError(
            f"the training images have {len(train.labels)} classes ({train.labels[0]}, ...), expected those of "
            f"{model.name} ({model.labels[0]}, ...)"
        )
    images = len(train) - int(held_out(train, settings.held_out, SPLIT_SEED).sum())
    if images < settings.batch:
        raise QuantizeError(f"there are {images} images to train on, expected at least one batch of {settings.batch}")
