"""Networks that compute with the weights of a layer without calling it."""

import copy
from typing import Any

import pytest

from edgemeta.toolchain.errors import SimulateError

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of  # noqa: E402

INT8 = {"layers": "*", "activation": "int8", "weight": "int8_per_channel", "gradient": "flexfp8_e5m2_shared"}


def rules(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"rules": list(entries)}


def hooks(model: Any) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


class Attention(nn.Module):
    """As torchvision's window attention."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(4, 12), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        q, k, v = functional.linear(x, self.qkv.weight, self.qkv.bias).chunk(3, -1)
        return functional.linear((q @ k.mT) @ v, self.proj.weight, self.proj.bias)


class Blocks(nn.Module):
    """Two attentions, a layer that is called, and one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.ModuleDict({"attn": Attention()}) for _ in range(2)])
        self.head, self.skipped = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        for block in self.blocks:
            x = block["attn"](x)
        return self.head(x)


def test_weights_that_the_network_reads_itself() -> None:
    model = prepare(Blocks(), rules(INT8))
    expected = (
        r"the network computes with the weights of layer blocks\.0\.attn\.proj and 3 more without a call, so .* "
        r'expected a last rule \{layers: \["\*\.attn\.proj", "\*\.attn\.qkv"\], activation: float32, '
        r"gradient: float32\}"
    )
    with pytest.raises(SimulateError, match=expected):
        model(torch.randn(2, 5, 4))


def test_with_the_rule_that_is_expected_only_their_weights_are_rounded() -> None:
    layers = {"layers": ["*.attn.proj", "*.attn.qkv"], "activation": "float32", "gradient": "float32"}
    model = prepare(Blocks(), rules(INT8, layers))
    model(torch.randn(2, 5, 4)).sum().backward()
    roles = {role for layer, role in quantizers_of(model) if layer == "blocks.1.attn.qkv"}
    assert roles == {"weight"}


def test_no_other_layer_falls_under_the_pattern() -> None:
    """Here `*.attn.proj` would cover a layer that is called."""
    model = nn.ModuleDict({"a": nn.ModuleDict({"attn": Attention()}), "b": nn.ModuleDict({"attn": nn.Module()})})
    model["b"]["attn"].proj = nn.Linear(4, 4)
    model.forward = lambda x: model["b"]["attn"].proj(model["a"]["attn"](x))
    prepare(model, rules(INT8))
    with pytest.raises(SimulateError, match=r'layers: \["a\.attn\.proj", "\*\.attn\.qkv"\]'):
        model(torch.randn(2, 5, 4))


@pytest.mark.parametrize("copied", [False, True])
def test_after_the_first_pass_nothing_is_watched(copied: bool) -> None:
    layers = {"layers": "blocks.*", "activation": "float32", "gradient": "float32"}
    model = prepare(Blocks(), rules(INT8, layers))
    if copied:
        model = copy.deepcopy(model)
    before = hooks(model)
    model(torch.randn(2, 5, 4))
    assert before - hooks(model) == 2 * 2 + 1  # of two layers and their weights, of the network


def test_multi_head_attention_is_refused_at_once() -> None:
    """It computes with the weights of `out_proj` itself."""
    expected = (
        r"PyTorch's MultiheadAttention computes with the weights of layer self_attn\.out_proj without a call, so .* "
        r'expected a last rule \{layers: \["self_attn\.out_proj"\], activation: float32, weight: float32, '
    )
    with pytest.raises(SimulateError, match=expected):
        prepare(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), rules(INT8))
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 3)
    with pytest.raises(SimulateError, match=r'layers: \["\*\.self_attn\.out_proj"\]'):
        prepare(stack, rules(INT8))
    roles = ("activation", "weight", "gradient", "weight_gradient")
    left_out = {"layers": "*self_attn.out_proj", **dict.fromkeys(roles, "float32")}
    model = prepare(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), rules(INT8, left_out))
    model(torch.randn(2, 5, 8)).sum().backward()
    assert {layer for layer, _ in quantizers_of(model)} == {"linear1", "linear2"}
