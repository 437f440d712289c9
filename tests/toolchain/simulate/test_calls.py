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


ROLES = ("activation", "weight", "gradient", "weight_gradient")
ATTENTION = {"layers": "blocks.*.attn", **dict.fromkeys(ROLES, "float32")}


def test_weights_that_the_network_reads_itself() -> None:
    model = prepare(Blocks(), rules(INT8))
    expected = (
        r"the network computes with the weights of layer blocks\.0\.attn\.proj and 3 more without a call, so .* "
        r'expected a last rule \{layers: \["\*\.attn\.proj", "\*\.attn\.qkv"\], activation: float32, '
        r"gradient: float32\}; and the network multiplies in blocks\.0\.attn \(bmm\) and 1 more past its layers, "
        r'.* expected layers, such as .*, or a last rule \{layers: \["blocks\.\*\.attn"\], act'
    )
    with pytest.raises(SimulateError, match=expected):
        model(torch.randn(2, 5, 4))


def test_with_the_rule_that_is_expected_only_their_weights_are_rounded() -> None:
    layers = {"layers": ["*.attn.proj", "*.attn.qkv"], "activation": "float32", "gradient": "float32"}
    model = prepare(Blocks(), rules(INT8, layers, ATTENTION))
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
def test_after_a_pass_in_training_and_one_in_evaluation_nothing_is_watched(copied: bool) -> None:
    layers = {"layers": ["blocks.*.proj", "blocks.*.qkv"], "activation": "float32", "gradient": "float32"}
    model = prepare(Blocks(), rules(INT8, layers, ATTENTION))
    if copied:
        model = copy.deepcopy(model)
    before = hooks(model)
    model(torch.randn(2, 5, 4))
    assert hooks(model) == before
    model.eval()(torch.randn(2, 5, 4))
    assert before - hooks(model) == 2


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


class Own(nn.Module):
    """A layer, and a product of a module's own between two of them."""

    def __init__(self, product: Any, *shape: int) -> None:
        super().__init__()
        self.first, self.product = nn.Linear(4, 4), Product(product, *shape)

    def forward(self, x: Any) -> Any:
        return self.product(self.first(x))


class Product(nn.Module):
    """Applies a function of x and of a parameter."""

    def __init__(self, product: Any, *shape: int) -> None:
        super().__init__()
        self.function, self.factor = product, nn.Parameter(torch.ones(*shape or (4, 4)))

    def forward(self, x: Any) -> Any:
        return self.function(x, self.factor)


@pytest.mark.parametrize(
    ("product", "shape", "operators"),
    [
        (lambda x, w: x @ w, (4, 4), "mm"),
        (lambda x, w: x @ w[:, 0], (4, 4), "mv"),
        (lambda x, _: torch.bmm(x[None], x.T[None]), (), "bmm"),
        (lambda x, _: torch.einsum("ij,kj->ik", x, x), (), "bmm"),
        (lambda x, w: torch.tensordot(x, w, 1), (), "mm"),
        (lambda x, w: functional.linear(x, w, w[0]), (), "addmm"),
        (lambda x, w: functional.conv1d(x[:, None], w), (2, 1, 3), "convolution"),
        (lambda x, w: functional.conv_transpose1d(x[:, None], w), (1, 2, 3), "convolution"),
        (lambda x, w: functional.bilinear(x, x, w), (2, 4, 4), "_trilinear"),
        (lambda x, _: functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]), (), ".*"),
        (lambda x, w: x * w[0], (), "mul"),
        (lambda x, w: torch.addcmul(x, x, w[:3]), (), "addcmul"),
    ],
)
def test_products_past_the_layers_are_named(product: Any, shape: tuple[int, ...], operators: str) -> None:
    """With the rule of the message the network runs, and the layers beside are rounded."""
    x = torch.randn(3, 4)
    for prepared in (False, True):
        model = Own(product, *shape)
        left_out = {"layers": ["product"], **dict.fromkeys(ROLES[:3], "float32")}
        prepare(model, rules(INT8, left_out) if prepared else rules(INT8))
        if prepared:
            model(x).sum().backward()
            assert {layer for layer, _ in quantizers_of(model)} == {"first"}
            continue
        expected = rf"the network multiplies in product \({operators}\) past .*rule \{{layers: \[\"product\"\], act"
        with pytest.raises(SimulateError, match=expected):
            model(x)
        model.eval()
        with pytest.raises(SimulateError, match=expected):
            model(x)


def test_what_only_scales_or_adds_is_no_product() -> None:
    """Normalizations, PReLU, biases, positions: elementwise, in float32 as the page says."""

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc, self.norm, self.act = nn.Linear(4, 4), nn.LayerNorm(4), nn.PReLU()
            self.position, self.drop = nn.Parameter(torch.ones(4)), nn.Dropout(0.5)

        def forward(self, x: Any) -> Any:
            return self.drop(self.act(self.norm(self.fc(x) + self.position)) * 0.5).softmax(-1)

    model = prepare(Plain(), rules(INT8))
    model(torch.randn(3, 4)).sum().backward()
    model.eval()(torch.randn(3, 4))


def test_a_layer_that_multiplies_by_more_than_its_weights() -> None:
    class LowRank(nn.Linear):
        """As adapters have it."""

        def __init__(self) -> None:
            super().__init__(4, 4)
            self.down, self.up = nn.Parameter(torch.ones(4, 1)), nn.Parameter(torch.ones(1, 4))

        def forward(self, x: Any) -> Any:
            return super().forward(x) + x @ self.down @ self.up

    model = prepare(nn.Sequential(LowRank()), rules(INT8))
    with pytest.raises(SimulateError, match=r"the network multiplies in 0 \(mm\) past its layers"):
        model(torch.randn(3, 4))


def test_a_pass_that_fails_is_not_the_first_one() -> None:
    model = prepare(Own(lambda x, w: x @ w), rules(INT8))
    with pytest.raises(RuntimeError):
        model(torch.randn(3, 5))
    with pytest.raises(SimulateError, match="the network multiplies in product"):
        model(torch.randn(3, 4))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(4, 4),
        lambda: nn.GRU(4, 4),
        lambda: nn.RNN(4, 4),
        lambda: nn.LSTMCell(4, 4),
        lambda: nn.GRUCell(4, 4),
        lambda: nn.RNNCell(4, 4),
        lambda: nn.Bilinear(4, 4, 2),
        lambda: nn.Embedding(4, 4, sparse=True),
        lambda: nn.EmbeddingBag(4, 4, max_norm=1.0),
    ],
)
def test_modules_whose_operands_are_out_of_reach_are_refused_by_name(make: Any) -> None:
    def network() -> Any:
        return nn.ModuleDict({"inner": make(), "head": nn.Linear(4, 2)})

    kind = type(make()).__name__
    expected = rf"layer inner is of the kind {kind}, which .*; expected a last rule \{{layers: \[\"inner\"\], act"
    with pytest.raises(SimulateError, match=expected):
        prepare(network(), rules(INT8))
    left_out = {"layers": "inner", **dict.fromkeys(ROLES[:3], "float32")}
    model = prepare(network(), rules(INT8, left_out))
    assert {layer for layer, _ in quantizers_of(model)} == {"head"}
    only_head = prepare(network(), rules(INT8 | {"layers": "head"}))
    assert {layer for layer, _ in quantizers_of(only_head)} == {"head"}


def test_a_rule_that_leaves_out_names_a_module_and_one_that_rounds_a_layer() -> None:
    with pytest.raises(SimulateError, match=r"rule 1 \(product\) matches no layer, expected .* first"):
        prepare(Own(lambda x, w: x @ w), rules(INT8 | {"layers": "product"}))
    with pytest.raises(SimulateError, match=r"rule 2 \(produkt\) matches no layer"):
        prepare(Own(lambda x, w: x @ w), rules(INT8, {"layers": "produkt", "activation": "float32"}))
