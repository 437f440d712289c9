"""The report counts what was limited and flushed, and leaves the network as it was."""

from typing import Any

import pytest

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import FixedPoint, format_of, name_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from torch import nn  # noqa: E402

from edgemeta.toolchain.simulate.prepare import prepare  # noqa: E402
from edgemeta.toolchain.simulate.report import as_text, report  # noqa: E402

RULES = {
    "rules": [{"layers": "*", "activation": {"kind": "fixed", "bits": 4, "fraction": 0}, "weight": "power_of_two_3"}]
}


def test_shares_and_ranges() -> None:
    model = prepare(nn.Sequential(nn.Linear(8, 2, bias=False), nn.BatchNorm1d(2)), RULES)
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 0.5, 0.2, -0.1, 0, 0, 0, 0]] * 2))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    x = torch.tensor([[9.0, -9.0, 0.2, 0.4, 7.0, 0.0, 1.0, torch.nan], [0.0] * 8])
    activation, weight = sorted(report(model, [x, x]), key=lambda row: row.role)
    assert (activation.layer, activation.kind) == ("0", FixedPoint(bits=4, fraction=0))
    assert (activation.least, activation.greatest) == (-9.0, 9.0)
    assert (activation.limited, activation.flushed) == (2 / 16, 2 / 16)
    assert weight.flushed == pytest.approx(2 / 8)  # 1 and 0.5 are all the values
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    text = as_text([activation, weight]).splitlines()
    assert text[1].split() == ["0", "activation", "fixed(bits=4,", "fraction=0)", "-9", "9", "12.50%", "12.50%"]
    assert text[2].split()[:3] == ["0", "weight", "power_of_two_3"]


def test_what_cannot_be_reported() -> None:
    with pytest.raises(SimulateError, match="expected one that is prepared"):
        report(nn.Linear(2, 2), [torch.zeros(1, 2)])
    with pytest.raises(SimulateError, match="none of the rounded layers was run, expected at least one batch"):
        report(prepare(nn.Sequential(nn.Linear(2, 2)), RULES), [])


def test_layers_that_an_evaluation_leaves_out() -> None:
    """As GoogLeNet leaves out its auxiliary classifiers."""

    class TwoHeads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.main, self.an_auxiliary_classifier = nn.Linear(2, 3), nn.Linear(2, 3)

        def forward(self, x: Any) -> Any:
            return (self.main(x), self.an_auxiliary_classifier(x)) if self.training else self.main(x)

    rows = report(prepare(TwoHeads(), RULES), [torch.ones(4, 2)])
    elements = {(row.layer, row.role): row.elements for row in rows}
    assert elements["main", "activation"] == 8
    assert elements["main", "weight"] == 6
    assert elements["an_auxiliary_classifier", "activation"] == 0
    assert elements["an_auxiliary_classifier", "weight"] == 0
    head, *lines = as_text(rows).splitlines()
    for line, row in zip(lines, rows, strict=True):
        assert line[: head.index("role")].rstrip() == row.layer
        assert line.endswith("not run") == (row.elements == 0)


def test_names_of_formats() -> None:
    assert name_of(format_of("mxint8")) == "mxint8"
    assert name_of(FixedPoint(bits=3, fraction=1)) == "fixed(bits=3, fraction=1)"
