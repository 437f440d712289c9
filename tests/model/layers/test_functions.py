"""Functions of one element against PyTorch's."""

import numpy as np
import pytest

from edgemeta.model.layers.functions import FUNCTIONS, LEAST, FunctionName, evaluate

X = np.concatenate([np.linspace(-12, 12, 481), [-1e4, -90, 90, 1e4]]).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_pytorch_s(name: FunctionName) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is missing (extra `train`)")
    functional = torch.nn.functional
    x = torch.from_numpy(X)
    expected = {
        "sigmoid": lambda: torch.sigmoid(x),
        "silu": lambda: functional.silu(x),
        "tanh": lambda: torch.tanh(x),
        "leaky_relu": lambda: functional.leaky_relu(x, 0.3),
        "elu": lambda: functional.elu(x, 0.3),
        "hard_sigmoid": lambda: torch.clamp(0.3 * x + 0.4, 0, 1),
        "hard_swish": lambda: functional.hardswish(x),
        "softplus": lambda: torch.logaddexp(torch.zeros(()), x),
        "mish": lambda: functional.mish(x),
        "gelu": lambda: functional.gelu(x),
        "gelu_tanh": lambda: functional.gelu(x, approximate="tanh"),
        "clip": lambda: torch.clamp(x, 0.3, 0.4),
        "abs": lambda: x.abs(),
        "celu": lambda: functional.celu(x, 0.3),
        "exp": lambda: x.clamp(max=88).exp(),
        "log": lambda: x.clamp(min=float(LEAST)).log(),
        "power": lambda: x.clamp(min=float(LEAST)) ** 0.3,
        "selu": lambda: functional.elu(x, 0.3) * 0.4,
        "softsign": lambda: functional.softsign(x),
    }[name]()
    found = evaluate(name, X, 0.3, 0.4)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected.numpy(), rtol=2e-6, atol=2e-6)
