"""An incremental quantization from labelled images to the integer model: split, retraining, ranges, measurement."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.callbacks import Progress
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Weighted
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.data.split import SPLIT_SEED, held_out
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.freezing import release_probability, temperature
from edgemeta.toolchain.incremental.network import FrozenStep, PartlyFrozen
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.progress import ProgressCallback, Reporter
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibration import DATASET_IMAGES, PreparedImages
from edgemeta.toolchain.quantize.multiplier_free import multiplier_free
from edgemeta.toolchain.quantize.ranges import Statistics
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.augment import (
    STREAM_FREEZE,
    STREAM_ORDER,
    STREAM_RELEASE,
    STREAM_STUDENT,
    ImageBank,
    draw_view,
    generator,
)
from edgemeta.toolchain.train.batches import accuracy_percent, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity, weights_digest
from edgemeta.toolchain.train.loop import BatchLoss, Trained, Training, run_epochs
from edgemeta.toolchain.train.run_folder import data_digest
from edgemeta.toolchain.train.start import require_trainable
from edgemeta.toolchain.train.student import DistillationData, cosine, distillation_loss, nesterov
from edgemeta.toolchain.train.targets import live_target

CHECKPOINT, LOG = "network.pt", "log.jsonl"
"""Files of a run in its folder."""


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
    inputs = DistillationData(part, bank, target, measured)
    identity = RunIdentity(
        settings.digest(weights_digest(teacher)),
        data_digest(train) if alternates is None else data_digest(train, alternates),
    )
    network = PartlyFrozen(chain, settings.bits, settings.exponents)
    return retrain(network, settings, inputs, folder / CHECKPOINT, identity, Reporter(folder / LOG, progress))


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


def retrain(
    network: PartlyFrozen,
    settings: IncrementalSettings,
    inputs: DistillationData,
    checkpoint: Path,
    identity: RunIdentity,
    reporter: Reporter,
) -> Trained[PartlyFrozen]:
    """All steps, continued from the checkpoint if there is one; the network of the last epoch.

    Epoch e belongs to step e // epochs. At its start a step freezes its share; then, with annealing, some frozen
    weights are released for one epoch. In the last epoch of a step nothing is released, so at the end the statistics of
    the batch norms are those of the final weights. All random numbers depend only on seed, purpose and epoch. Raises
    CheckpointError.
    """
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    bank, seed = inputs.bank, settings.seed
    classes = len(inputs.train.labels)
    labels = functional.one_hot(torch.from_numpy(inputs.train.y.astype(np.int64)), classes).float()
    steps = bank.images // settings.batch

    def rates(epoch: int, step: int) -> tuple[float, float]:
        place = (epoch % settings.epochs + step / steps) / settings.epochs
        rate = settings.lr * cosine(place, 0.0)
        return rate, rate

    def begin(epoch: int) -> BatchLoss:
        number, place = divmod(epoch, settings.epochs)
        if place == 0:
            network.freeze(settings.shares[number], settings.rule, generator(seed, STREAM_FREEZE, number))
        heat = temperature(settings.heat, place, settings.epochs)
        network.release(release_probability(heat), generator(seed, STREAM_RELEASE, epoch))
        view = draw_view(seed, STREAM_STUDENT, epoch, bank.images, settings.pad, settings.alternate_share)

        def loss(index: NDArray[np.int64]) -> Tensor:
            x = network_input(bank.cut(view, index))
            with mixed_precision():
                output = network(x)
            return distillation_loss(
                output.float(), inputs.target(index, x), labels[index], settings.softness, 1.0 - settings.soft
            )

        return loss

    def measure(candidate: nn.Module) -> float:
        return accuracy_percent(candidate, inputs.measured.x, inputs.measured.y)

    training = Training(
        stage="retraining",
        network=network,
        step=FrozenStep(nesterov(network, settings.lr, settings.momentum, settings.weight_decay), network),
        epochs=settings.all_epochs,
        images=bank.images,
        batch=settings.batch,
        order=lambda epoch: generator(seed, STREAM_ORDER, 2_000_000 + epoch).permutation(bank.images),
        rates=rates,
        losses=begin,
        after_epoch=network.refreeze,
        measure=measure,
    )
    return run_epochs(training, checkpoint, identity, reporter)
