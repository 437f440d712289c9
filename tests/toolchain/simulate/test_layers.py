"""Products of two tensors as layers: both factors and the gradient are rounded."""

from typing import Any

import pytest

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import format_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402

from edgemeta.toolchain.number_formats.rounding import round_to_grid  # noqa: E402
from edgemeta.toolchain.simulate.layers import MatMul  # noqa: E402
from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of  # noqa: E402

FP8 = {"layers": "*", "activation": "flexfp8_e4m3", "weight": "flexfp8_e4m3", "gradient": "flexfp8_e5m2"}


class Attention(nn.Module):
    """One head, whose products are layers."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.scores, self.mixed = nn.Linear(4, 12), MatMul(), MatMul()

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.mixed(self.scores(q, k.mT).softmax(-1), v)


def test_an_attention_is_under_rules() -> None:
    model = prepare(Attention(), {"rules": [FP8]})
    model(torch.randn(2, 5, 4)).sum().backward()
    model.eval()(torch.randn(2, 5, 4))
    found = quantizers_of(model)
    assert {place for place in found if place[0] != "qkv"} == {
        (name + part, role)
        for name in ("scores", "mixed")
        for part, role in (("", "gradient"), (".left", "activation"), (".right", "activation"))
    }


def test_both_factors_and_the_gradient_are_rounded() -> None:
    model = prepare(MatMul(), {"rules": [FP8]}).eval()
    left, right = (torch.randn(2, *shape, requires_grad=True) for shape in ((3, 4), (4, 5)))
    y = model(left, right)
    a, b = (round_to_grid(each.detach(), format_of("flexfp8_e4m3").grid, "nearest_even") for each in (left, right))
    assert torch.equal(y, a @ b)
    gradient = torch.randn(2, 3, 5)
    y.backward(gradient)
    rounded = round_to_grid(gradient, format_of("flexfp8_e5m2").grid, "nearest_even")
    assert torch.equal(left.grad, rounded @ b.mT)
    assert torch.equal(right.grad, a.mT @ rounded)


def test_blocks_lie_along_what_is_summed() -> None:
    block = {"kind": "block", "element": {"kind": "fixed", "bits": 4, "fraction": 2}, "size": 2}
    model = prepare(MatMul(), {"rules": [{"layers": "*", "activation": block}]}).eval()
    left = torch.tensor([[1.0, 100.0, 1.0, 1.0]])
    with torch.no_grad():
        assert model(left, torch.ones(4, 1)).tolist() == [[98.0]]  # 100 becomes 96, and 1 beside it 0
        assert model(torch.ones(1, 4), left.mT).tolist() == [[98.0]]


def test_a_factor_has_one_range() -> None:
    with pytest.raises(SimulateError, match=r"layer scores\.left .* one range"):
        prepare(Attention(), {"rules": [{"layers": "*", "activation": "int8_per_channel"}]})
