"""The epoch loop: its steps are those of a plain loop, it continues exactly, it keeps the best epoch."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.progress import Reporter, TrainingEvent, read_log
from edgemeta.toolchain.train.augment import STREAM_ORDER, STREAM_STUDENT, ImageBank, draw_view, generator
from edgemeta.toolchain.train.batches import mixed_precision, network_input
from edgemeta.toolchain.train.checkpoint import RunIdentity
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.loop import Training, run_epochs
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.optimizer_step import OptimizerStep
from edgemeta.toolchain.train.recipe import recipe_from
from edgemeta.toolchain.train.student import DistillationData, cosine, distillation_loss, train_student
from edgemeta.toolchain.train.targets import stored_target

IDENTITY = RunIdentity("recipe", "data")


class StoppedError(Exception):
    """Stands for Ctrl-C."""


def everything(network: nn.Module) -> dict[str, Any]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def test_the_students_steps_are_those_of_a_plain_loop(tmp_path: Path, pixels: Any, classes: Any) -> None:
    """The CIFAR recipe's two epochs, written out once more without the shared loop: equal bit for bit."""
    recipe = recipe_from({"student": {"epochs": 2, "batch": 8, "warmup_epochs": 1, "ema": 0.9}}, "r")
    part, data = recipe.student, Dataset(pixels, classes)
    bank, rng = ImageBank(pixels, part.pad), np.random.default_rng(1)
    targets = rng.normal(0, 2, (20, 10)).astype(np.float32)
    inputs = DistillationData(data, bank, stored_target(targets), data)
    found = train_student(recipe, inputs, tmp_path, "data", Reporter(tmp_path / "log.jsonl", None))

    torch.manual_seed(recipe.seed + 1)
    network, average = build(Design()), build(Design())
    for each in (network, average):
        each.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    average.load_state_dict(network.state_dict())
    many, one = ([p for p in network.parameters() if (p.ndim > 1) == wide] for wide in (True, False))
    optimizer = torch.optim.SGD(
        [{"params": many, "weight_decay": part.weight_decay}, {"params": one, "weight_decay": 0.0}],
        lr=part.lr,
        momentum=part.momentum,
        nesterov=True,
    )
    labels, taken = functional.one_hot(torch.from_numpy(classes.astype(np.int64)), 10).float(), 0
    for epoch in range(2):
        network.train()
        order = generator(recipe.seed, STREAM_ORDER, 1_000_000 + epoch).permutation(20)
        view = draw_view(recipe.seed, STREAM_STUDENT, epoch, 20, part.pad, recipe.alternate_share)
        for index in (order[:8], order[8:16]):
            for group in optimizer.param_groups:
                group["lr"] = part.lr * cosine(taken / 4, 0.5)
            with mixed_precision():
                output = network(network_input(bank.cut(view, index)))
            target = torch.from_numpy(targets[index])
            loss = distillation_loss(output.float(), target, labels[index], part.temperature, part.hard_weight)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            share = 1.0 - min(part.ema, (1.0 + taken) / (10.0 + taken))
            with torch.no_grad():
                mine, theirs = average.state_dict(), network.state_dict()
                floats = [k for k, v in mine.items() if v.is_floating_point()]
                torch._foreach_lerp_([mine[k] for k in floats], [theirs[k] for k in floats], share)
            taken += 1
    wanted = average.state_dict()
    assert all((found.state_dict()[k] == wanted[k]).all() for k in wanted)
    assert not found.training


@pytest.fixture
def small_training() -> Callable[..., Training[nn.Linear]]:
    """A function that makes a tiny training: a linear layer learns the sign of a sum, by eight images a step."""

    def make(**changes: Any) -> Training[nn.Linear]:
        torch.manual_seed(3)
        x = torch.randn(20, 5)
        y = (x.sum(1) > 0).long()
        network = nn.Linear(5, 2)
        values: dict[str, Any] = {
            "stage": "student",
            "network": network,
            "step": OptimizerStep(torch.optim.SGD(network.parameters(), 0.1, momentum=0.9)),
            "epochs": 4,
            "images": 20,
            "batch": 8,
            "order": lambda epoch: generator(1, STREAM_ORDER, epoch).permutation(20),
            "rates": lambda epoch, step: [0.1],
            "losses": lambda epoch: lambda index: functional.cross_entropy(network(x[index]), y[index]),
            "measure": lambda net: 100 * float((net(x).argmax(1) == y).float().mean()),
            "average": 0.5,
            **changes,
        }
        return Training(**values)

    return make


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_a_continued_run_ends_like_an_uninterrupted_one(
    tmp_path: Path, small_training: Callable[..., Training[nn.Linear]], stop: int
) -> None:
    whole = run_epochs(small_training(), tmp_path / "whole.pt", IDENTITY, Reporter(tmp_path / "log", None))

    def watch(event: TrainingEvent) -> None:
        if event.epoch == stop:
            raise StoppedError

    with pytest.raises(StoppedError):
        run_epochs(small_training(), tmp_path / "parts.pt", IDENTITY, Reporter(tmp_path / "log", watch))
    parts = run_epochs(small_training(), tmp_path / "parts.pt", IDENTITY, Reporter(tmp_path / "log", None))
    assert parts.epoch == whole.epoch == 4
    assert parts.accuracy == whole.accuracy
    assert all((parts.network.state_dict()[k] == v).all() for k, v in everything(whole.network).items())


def test_the_best_epoch_is_kept_also_over_an_interruption(
    tmp_path: Path, small_training: Callable[..., Training[nn.Linear]]
) -> None:
    seen: list[dict[str, Any]] = []
    accuracies = [50.0, 80.0, 80.0, 60.0]

    def measure(network: nn.Module) -> float:
        seen.append(everything(network))
        return accuracies[len(seen) - 1]

    def watch(event: TrainingEvent) -> None:
        if event.epoch == 3:
            raise StoppedError

    changes = {"measure": measure, "average": None, "keep_best": True}
    with pytest.raises(StoppedError):
        run_epochs(small_training(**changes), tmp_path / "a.pt", IDENTITY, Reporter(tmp_path / "log", watch))
    best = run_epochs(small_training(**changes), tmp_path / "a.pt", IDENTITY, Reporter(tmp_path / "log", None))
    assert len(seen) == 4
    assert (best.epoch, best.accuracy) == (3, 80.0)
    assert all((best.network.state_dict()[k] == v).all() for k, v in seen[2].items())
    again = run_epochs(small_training(**changes), tmp_path / "a.pt", IDENTITY, Reporter(tmp_path / "log", None))
    assert (again.epoch, again.accuracy) == (3, 80.0)


def test_a_process_killed_between_a_checkpoint_and_its_report(
    tmp_path: Path, small_training: Callable[..., Training[nn.Linear]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one reports that epoch, with the same figures."""
    run_epochs(small_training(), tmp_path / "whole.pt", IDENTITY, Reporter(tmp_path / "whole", None))

    def killed(*_: object) -> None:
        raise StoppedError

    with monkeypatch.context() as patch:
        patch.setattr(Reporter, "report", killed)
        with pytest.raises(StoppedError):
            run_epochs(small_training(), tmp_path / "parts.pt", IDENTITY, Reporter(tmp_path / "parts", None))
    assert not (tmp_path / "parts").exists()
    for _ in range(2):
        run_epochs(small_training(), tmp_path / "parts.pt", IDENTITY, Reporter(tmp_path / "parts", None))
    whole, parts = ([replace(event, seconds=0.0) for event in read_log(tmp_path / n)] for n in ("whole", "parts"))
    assert whole == parts
    assert [event.epoch for event in whole] == [1, 2, 3, 4]


def test_measuring_and_reports(tmp_path: Path, small_training: Callable[..., Training[nn.Linear]]) -> None:
    events: list[TrainingEvent] = []
    training = small_training(evaluate_every=3, report_every=1, first_epoch=4, all_epochs=8)
    run_epochs(training, tmp_path / "a.pt", IDENTITY, Reporter(tmp_path / "log", events.append))
    assert [(e.epoch, e.epochs, e.step) for e in events] == [(n, 8, s) for n in (5, 6, 7, 8) for s in (1, 2)]
    assert [e.accuracy is not None for e in events if e.step == 2] == [True, False, True, True]
    assert [e.raw_accuracy is not None for e in events if e.step == 2] == [True, False, True, True]
    assert all(e.loss is not None for e in events)
