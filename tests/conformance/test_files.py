"""Every case goes to a file and back: same bytes, same logits."""

import numpy as np

from edgemeta.model.file import decode, encode
from edgemeta.model.reference import run
from tests.conformance.cases import Case


def test_a_stored_model_gives_the_same_logits(case: Case) -> None:
    data = encode(case.model)
    restored = decode(data)
    assert encode(restored) == data
    assert restored.name == case.model.name
    assert restored.input == case.model.input
    for _, batch in case.batches():
        np.testing.assert_array_equal(run(restored, batch), run(case.model, batch))
