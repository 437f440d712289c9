"""Weights are rounded under their own name: scripts, checkpoints and files find the network as they know it."""

import copy
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

from edgemeta.toolchain.errors import SimulateError

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402
from torch.nn.utils import parametrizations, prune  # noqa: E402

from edgemeta.toolchain.simulate.prepare import prepare, quantizers_of, rounded_weights  # noqa: E402

FP8 = {"layers": "*", "activation": "fp8_e4m3", "weight": "fp8_e4m3", "gradient": "fp8_e5m2"}
INT8 = {"layers": "*", "activation": "int8", "weight": "int8_per_channel"}


class Net(nn.Module):
    """A convolution, a norm and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.fc(self.norm(self.conv(x)).mean((2, 3)))


def prepared(*entries: dict[str, Any], seed: int = 1) -> Any:
    torch.manual_seed(seed)
    return prepare(Net(), {"rules": list(entries or (FP8,))})


def batch() -> Any:
    return torch.randn(5, 3, 6, 6, generator=torch.Generator().manual_seed(2))


def test_parameters_keep_names_objects_and_kinds() -> None:
    torch.manual_seed(1)
    plain = Net()
    names = dict(plain.named_parameters())
    model: Any = prepare(plain, {"rules": [FP8]})
    assert {name: id(each) for name, each in model.named_parameters()} == {n: id(each) for n, each in names.items()}
    assert model.conv.weight is names["conv.weight"]
    assert isinstance(model.fc, nn.Linear)
    assert repr(model.fc).startswith("Linear(")
    assert set(Net().state_dict()) <= set(model.state_dict())


def test_edits_of_weights_have_an_effect() -> None:
    model = prepared().eval()
    x = batch()
    before = model(x)
    model.fc.weight.data.mul_(2)
    model.fc.bias.data.mul_(2)
    assert torch.equal(model(x), 2 * before)
    nn.init.zeros_(model.fc.weight)
    assert torch.equal(model(x), model.fc.bias.expand(5, 2))
    model.fc.weight = nn.Parameter(torch.full((2, 4), 1.05))
    with rounded_weights(model):
        assert torch.equal(model.fc.weight, torch.ones(2, 4))
    assert float(model.fc.weight[0, 0].detach()) == pytest.approx(1.05)


def test_a_checkpoint_in_float32_is_loaded_and_later_ones_are_complete() -> None:
    torch.manual_seed(9)
    plain = Net()
    model = prepared(INT8)
    model.load_state_dict(plain.state_dict())
    assert torch.equal(model.conv.weight, plain.conv.weight)
    model.conv.load_state_dict(plain.conv.state_dict())
    model(batch())
    again = prepared(INT8, seed=3)
    again.load_state_dict(model.state_dict())
    assert torch.equal(again.eval()(batch()), model.eval()(batch()))
    assert torch.equal(again.simulation_counter, model.simulation_counter)
    plain.load_state_dict({name: each for name, each in model.state_dict().items() if name in plain.state_dict()})
    with pytest.raises(RuntimeError, match=r"conv\.weight"):
        model.load_state_dict({name: each for name, each in plain.state_dict().items() if name != "conv.weight"})


def test_groups_by_name_and_an_optimizer_made_before() -> None:
    torch.manual_seed(1)
    model = Net()
    decayed = [each for name, each in model.named_parameters() if name.endswith("weight")]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}])
    prepare(model, {"rules": [FP8]})
    assert len([name for name, _ in model.named_parameters() if name.endswith(".weight")]) == 3
    before = model.conv.weight.detach().clone()
    model(batch()).sum().backward()
    optimizer.step()
    assert not torch.equal(model.conv.weight, before)


@pytest.mark.parametrize("way", ["file", "pickle", "copy"])
def test_a_whole_network_as_a_file_and_a_copy(way: str, tmp_path: Path) -> None:
    model = prepared(INT8, {"layers": "fc", "weight_gradient": "fp8_e5m2"})
    model(batch())
    if way == "file":
        torch.save(model, tmp_path / "network.pt")
        other = torch.load(tmp_path / "network.pt", weights_only=False)
    else:
        other = pickle.loads(pickle.dumps(model)) if way == "pickle" else copy.deepcopy(model)
    assert torch.equal(other.eval()(batch()), model.eval()(batch()))
    assert quantizers_of(other).keys() == quantizers_of(model).keys()
    other.fc.weight.data.mul_(2)
    assert not torch.equal(other(batch()), model(batch()))
    other.train()
    optimizer = torch.optim.SGD(other.parameters(), 0.1)
    (other(batch()) * torch.rand(5, 2)).sum().backward()
    optimizer.step()
    gradient = other.fc.weight.grad
    assert torch.equal(gradient, gradient.to(torch.float8_e5m2).to(torch.float32))


def test_a_pass_that_fails_leaves_parameters() -> None:
    model = prepared()
    with pytest.raises(RuntimeError):
        model(torch.zeros(1, 7, 6, 6))
    assert isinstance(model.conv.weight, nn.Parameter)
    model(batch())


def test_threads_round_alike() -> None:
    """While one thread is in a layer, another one that leaves it takes nothing away."""
    model = prepared({"layers": "*", "weight": "power_of_two_3"}).eval()
    wanted = model(batch())
    differ: list[bool] = []

    def run() -> None:
        for _ in range(30):
            with torch.no_grad():
                differ.append(not torch.equal(model(batch()), wanted))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(differ) == 120
    assert not any(differ)


def test_tied_weights_stay_tied_and_pruning_afterwards_is_rounded() -> None:
    model: Any = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    prepare(model, {"rules": [FP8]})
    assert model[1].weight is model[0].weight
    prune.l1_unstructured(model[0], "weight", 0.5)
    model(torch.randn(2, 4)).sum().backward()
    with rounded_weights(model):
        weight = model[0].weight.detach()
    assert torch.equal(weight, weight.to(torch.float8_e4m3fn).to(torch.float32))
    assert int((weight == 0).sum()) >= 8


def test_a_parametrization_on_top_of_the_rounding_is_found() -> None:
    model = prepared()
    parametrizations.weight_norm(model.fc)
    with pytest.raises(
        SimulateError, match="layer fc computes with other weights than its rounded ones, expected that"
    ):
        model(batch())
