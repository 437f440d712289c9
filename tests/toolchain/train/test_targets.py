"""Targets of the student: stored rows, or the mean of what teachers say of the view."""

import numpy as np
import pytest
import torch
from torch import nn

from edgemeta.toolchain.train.targets import live_target, stored_target


def test_stored_rows_are_chosen_by_number() -> None:
    logits = np.arange(12, dtype=np.float32).reshape(4, 3)
    found = stored_target(logits)(np.array([2, 0]), torch.zeros(2, 3, 8, 8))
    assert np.array_equal(found.numpy(), logits[[2, 0]])


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated")  # PyTorch's compiler calls it
@pytest.mark.parametrize("batches", [1, pytest.param(5000, marks=pytest.mark.gate("10 s: two networks are compiled"))])
def test_live_teachers_see_the_view_in_evaluation_mode(batches: int) -> None:
    teachers = [nn.Sequential(nn.Flatten(), nn.Linear(12, 3), nn.Dropout(0.9)) for _ in range(2)]
    x = torch.randn(5, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    found = live_target(teachers, batches)(np.arange(5), x)
    wanted = sum(t[1](x.flatten(1)) for t in teachers) / 2
    assert torch.allclose(found, wanted.float(), atol=2e-2)  # bfloat16 where the processor has it
    assert not found.requires_grad
