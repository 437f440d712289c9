"""Every case goes to a file and back: same bytes, same outputs."""

from edgemeta.model.file import decode, encode
from edgemeta.model.reference import run
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import assert_equal_outputs
from tests.parts import by_name, in_parts


@in_parts(by_name(CASES))
def test_a_stored_model_gives_the_same_outputs(case: Case) -> None:
    data = encode(case.model)
    restored = decode(data)
    assert encode(restored) == data
    assert restored.name == case.model.name
    assert restored.input == case.model.input
    for _, batch in case.batches():
        assert_equal_outputs(run(restored, batch), run(case.model, batch))
