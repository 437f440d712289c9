"""Training of the teachers, and the student's targets computed by them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from edgemeta.model.atomic_write import atomic_file
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import CheckpointError
from edgemeta.toolchain.progress import Reporter
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_TEACHER, STREAM_VIEWS, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import accuracy_percent, logits_of, mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.loop import BatchLoss, Training, run_epochs
from edgemeta.toolchain.train.optimizer_step import OptimizerStep
from edgemeta.toolchain.train.recipe import Recipe, TeacherRecipe


class Teacher(nn.Module):
    """A wider network that trains fast: two convolutions per block, early pooling, global maximum.

    The first 2x2 convolution is set once to the whitening transform of the training patches (`whiten`) and is not
    trained. Batch norms have a trained shift but no trained scale. Widths 64, 128, 256 take about 65 million
    multiply-accumulates per image.
    """

    def __init__(self, widths: Sequence[int] = (64, 128, 256), classes: int = 10) -> None:
        super().__init__()
        self.whitening = nn.Conv2d(3, 24, 2)
        self.whitening.weight.requires_grad_(False)
        layers: list[nn.Module] = []
        cin = 24
        for width in widths:
            layers += [
                nn.GELU(),
                nn.Conv2d(cin, width, 3, padding=1, bias=False),
                nn.MaxPool2d(2),
                _shift_only_norm(width),
                nn.GELU(),
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                _shift_only_norm(width),
            ]
            cin = width
        self.blocks = nn.Sequential(*layers, nn.GELU(), nn.AdaptiveMaxPool2d(1))
        for module in self.blocks:
            if isinstance(module, nn.Conv2d):  # identity on the first channels, small noise beyond
                nn.init.kaiming_uniform_(module.weight, nonlinearity="linear")
                nn.init.dirac_(module.weight[: module.in_channels].data)
        self.head = nn.Linear(cin, classes, bias=False)

    def whiten(self, x: Tensor, eps: float = 5e-4) -> None:
        """Set the first convolution from images x [B, 3, H, W].

        Its filters are the eigenvectors of the covariance of all 2x2 patches, divided by the root of their eigenvalues
        + eps, and their negatives.
        """
        patches = functional.unfold(x, 2).transpose(1, 2).reshape(-1, 12)
        values, vectors = torch.linalg.eigh((patches.T @ patches) / len(patches))
        scaled = (vectors / torch.sqrt(values + eps)).T.reshape(12, 3, 2, 2)
        self.whitening.weight.data.copy_(torch.cat([scaled, -scaled]))

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, classes] of x [B, 3, 32, 32]; scaled by 1/9 for a stable start of the training."""
        out: Tensor = self.head(self.blocks(self.whitening(x)).flatten(1)) / 9.0
        return out


def triangle(position: float, warmup: float, start: float, end: float) -> float:
    """Factor on the learning rate at `position` 0..1: linear from `start` up to 1 at `warmup`, then down to `end`."""
    if position < warmup:
        return start + (1.0 - start) * position / warmup
    return 1.0 + (end - 1.0) * (position - warmup) / (1.0 - warmup)


def _optimizer(network: Teacher, recipe: TeacherRecipe) -> torch.optim.SGD:
    weights: list[nn.Parameter] = []
    shifts: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            small = parameter.ndim == 1 and not name.startswith("whitening")
            (shifts if small else weights).append(parameter)
    return torch.optim.SGD(
        [
            {"params": weights, "lr": recipe.lr, "weight_decay": recipe.weight_decay},
            {
                "params": shifts,
                "lr": recipe.lr * recipe.bias_lr,
                "weight_decay": recipe.weight_decay / max(recipe.bias_lr, 1.0),
            },
        ],
        lr=recipe.lr,
        momentum=recipe.momentum,
        nesterov=True,
    )


def train_teacher(
    recipe: Recipe,
    number: int,
    bank: ImageBank,
    train: Dataset,
    test: Dataset,
    folder: Path,
    data: str,
    reporter: Reporter,
) -> Teacher:
    """Train (or continue, or just load) teacher `number`; its checkpoint is folder/teacher-<number>.pt.

    data: digest of the training data.
    """
    part = recipe.teacher
    seed = recipe.seed + 100 * number
    torch.manual_seed(seed)
    network = Teacher(part.widths, len(train.labels))
    network.whiten(network_input(np.ascontiguousarray(train.x[:5000].transpose(0, 3, 1, 2))))
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    labels = torch.from_numpy(train.y.astype(np.int64))
    steps = bank.images // part.batch

    def rates(epoch: int, step: int) -> tuple[float, float]:
        position = (epoch + step / steps) / part.epochs
        rate = part.lr * triangle(position, part.warmup, part.lr_start, part.lr_end)
        return rate, rate * part.bias_lr

    def losses(epoch: int) -> BatchLoss:
        view = draw_view(seed, STREAM_TEACHER, epoch, bank.images, bank.pad, recipe.alternate_share)

        def loss(index: NDArray[np.int64]) -> Tensor:
            with mixed_precision():
                logits = network(network_input(bank.cut(view, index)))
            return functional.cross_entropy(logits.float(), labels[index])

        return loss

    training = Training(
        stage="teacher",
        network=network,
        step=OptimizerStep(_optimizer(network, part)),
        epochs=part.epochs,
        images=bank.images,
        batch=part.batch,
        order=lambda epoch: generator(seed, STREAM_ORDER, epoch).permutation(bank.images),
        rates=rates,
        losses=losses,
        measure=lambda candidate: accuracy_percent(candidate, test.x, test.y),
        report_every=20,
        first_epoch=number * part.epochs,
        all_epochs=part.count * part.epochs,
    )
    identity = RunIdentity(recipe.digest("teacher"), data)
    return run_epochs(training, folder / f"teacher-{number}.pt", identity, reporter).network


def teacher_logits(
    recipe: Recipe, number: int, teacher: Teacher, bank: ImageBank, folder: Path, data: str, reporter: Reporter
) -> NDArray[np.float32]:
    """Mean logits [N, classes] of teacher `number` over the recipe's views of every training image.

    The logits of each view are stored in a file in `folder`, named after the digests of recipe and training data.
    """
    total = np.zeros((bank.images, teacher.head.out_features), np.float32)
    reporter.restart_clock()
    views = recipe.teacher.views
    stem = f"logits-{recipe.digest('teacher')[:12]}-{data[:12]}-{number}"
    for view in range(views):
        path = folder / f"{stem}-{view:02d}.npy"
        if not path.exists():
            _write_logits(path, recipe, view, teacher, bank)
            reporter.report("views", number * views + view + 1, recipe.teacher.count * views, 1, 1)
        values = np.load(path, allow_pickle=False)
        if values.shape != total.shape or values.dtype != np.float16:
            raise CheckpointError(
                f"{path}: holds {values.dtype} {values.shape}, expected float16 logits of "
                f"{bank.images} images; delete the file to compute it again"
            )
        total += values
    return total / np.float32(views)


def _write_logits(path: Path, recipe: Recipe, number: int, teacher: Teacher, bank: ImageBank) -> None:
    view = draw_view(recipe.seed, STREAM_VIEWS, number, bank.images, bank.pad, recipe.alternate_share)
    starts = range(0, bank.images, 2000)
    blocks = [logits_of(teacher, bank.cut(view, np.arange(s, min(s + 2000, bank.images)))) for s in starts]
    with atomic_file(path) as file:
        np.save(file, torch.cat(blocks).numpy().astype(np.float16))


def _shift_only_norm(width: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(width, momentum=0.4)
    norm.weight.requires_grad_(False)
    return norm
