"""The table of choices that only a simulation made: every choice has its two plans."""

import pytest

from benchmarks.gpu.simulated_choices import CHOICES, LAYER, verdict
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.zoo import find


@pytest.mark.gate("10 s: a shipped network is lowered a dozen times")
def test_every_choice_has_another_plan_on_some_device() -> None:
    model, found = load(find("resnet8-cifar10")), set()
    for architecture in (ARCHITECTURES[name] for name in ("sm_53", "sm_87", "sm_90")):
        for choice in CHOICES:
            try:
                own, other = choice.plans(model, LAYER, architecture)
            except UnsupportedError:
                continue
            assert own.launches[0].source != other.launches[0].source, choice.name
            found.add(choice.name)
    assert found == {choice.name for choice in CHOICES}


def test_a_choice_that_saves_little_is_deleted() -> None:
    assert verdict(90.0, 100.0) == "keep"
    assert verdict(98.0, 100.0) == "delete"
