"""The forms that `edgemeta bench` names."""

from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import forms_of
from tests.emulation.witnesses import BY_NAME, POPC, planes

SM_53, SM_87 = ARCHITECTURES["sm_53"], ARCHITECTURES["sm_87"]


def test_planes() -> None:
    model = planes("planes", 7, 5, 3, 21).model
    plan = lower(model, SM_53, kernels=POPC)
    forms = forms_of(plan.launches)
    assert forms["conv0"] == "popc, 3 planes of weights x 8 of activations"
    assert forms["conv1+add2"] == "popc, 2 planes of weights x 2 of activations"
    assert set(forms) == {"+".join(launch.layers) for launch in plan.launches}
    assert forms_of(one_launch(plan).launches) == forms


def test_fields_and_tensor_cores() -> None:
    model = BY_NAME["w4a4-3x3-signed"].model
    assert "direct, 2 fields" in forms_of(lower(model, SM_53, kernels=(direct, *POPC)).launches).values()
    assert "tensor, int4" in forms_of(lower(model, SM_87).launches).values()
