"""Vectors of an embedding."""

import numpy as np
import pytest

from edgemeta.model.tasks import Embedding
from edgemeta.tasks.embedding import EmbeddingReader
from tests.tasks.models import vector_model


@pytest.mark.parametrize("is_raw", [False, True])
@pytest.mark.parametrize("scale", [1e-20, 0.1, 1e20])
def test_a_vector_has_length_1_and_its_direction(is_raw: bool, scale: float) -> None:
    model = vector_model(Embedding(), 16, is_raw=is_raw, scale=scale, zero_point=0 if is_raw else -9)
    integers = np.random.default_rng(0).integers(-128, 128, 16).astype(np.int32 if is_raw else np.int8)
    vector = EmbeddingReader(model).vector(integers)
    real = (integers.astype(np.float64) - model.output_types[0].zero_point) * model.steps("vector")
    assert np.isclose(np.linalg.norm(vector), 1, rtol=1e-14)
    np.testing.assert_allclose(vector, real / np.linalg.norm(real), rtol=1e-12)


def test_zeros_stay_zeros() -> None:
    reader = EmbeddingReader(vector_model(Embedding(), 4, zero_point=7))
    assert reader.vector(np.full(4, 7, np.int8)).tolist() == [0, 0, 0, 0]
