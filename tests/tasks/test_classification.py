"""Scores and ranks of logits."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Dense, TensorType
from edgemeta.model.tasks import Classification, Rejection
from edgemeta.model.weights import FixedWeights
from edgemeta.tasks.classification import FrameScores, evidence_of, known, logits_of, rank, scores, top_k, unknown

logits_of_any_size = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=20)


@given(logits_of_any_size, st.integers(1, 25))
def test_rank_is_sorted_and_ties_go_to_the_lowest_index(logits: list[int], k: int) -> None:
    order = rank(np.array(logits, np.int32), k).tolist()
    assert order == sorted(range(len(logits)), key=lambda i: (-logits[i], i))[:k]


def test_ties_among_many_labels_go_to_the_lowest_index() -> None:
    logits = np.random.default_rng(0).integers(0, 3, 1000).astype(np.int8)
    assert rank(logits, 1000).tolist() == sorted(range(1000), key=lambda i: (-logits[i], i))


@given(logits_of_any_size)
def test_scores_sum_to_one_and_follow_the_logits(logits: list[int]) -> None:
    shares = scores(np.array([logits], np.int32), TensorType((1, 1, len(logits)), bits=32, scale=2.0**-12))[0]
    assert math.isclose(shares.sum(), 1, rel_tol=1e-12)
    for a, b in pairwise(np.argsort(logits)):
        assert shares[a] <= shares[b]


def test_scores_are_softmax_of_the_dequantized_logits() -> None:
    kind = TensorType((1, 1, 3), zero_point=7, scale=0.5)
    z = [0.5 * (q - 7) for q in (-3, 7, 9)]
    total = sum(math.exp(value) for value in z)
    shares = scores(np.array([-3, 7, 9], np.int8), kind)
    np.testing.assert_allclose(shares, [math.exp(value) / total for value in z], rtol=1e-14)


def test_a_huge_scale_gives_one_and_zeros() -> None:
    kind = TensorType((1, 1, 3), bits=32, scale=1e308)
    assert scores(np.array([5, 2**31 - 1, -(2**31)], np.int32), kind).tolist() == [0, 1, 0]


@given(logits_of_any_size, st.floats(0.01, 100))
def test_a_temperature_divides_the_logits_and_keeps_their_order(logits: list[int], temperature: float) -> None:
    kind = TensorType((1, 1, len(logits)), bits=32, scale=2.0**-28)
    shares = scores(np.array(logits, np.int32), kind, temperature)
    divided = scores(np.array(logits, np.int32), TensorType(kind.shape, bits=32, scale=kind.scale / temperature))
    np.testing.assert_allclose(shares, divided, rtol=1e-12)
    for a, b in pairwise(np.argsort(logits)):
        assert shares[a] <= shares[b]


def test_ranks_of_a_batch() -> None:
    assert rank(np.array([[1, 1, 0], [0, 5, 5]], np.int8), 2).tolist() == [[0, 1], [1, 2]]


def test_labels_have_their_scores() -> None:
    kind = TensorType((1, 1, 3), scale=1.0)
    weights = FixedWeights(np.ones((3, 1), np.int8), 8, np.ones(1))
    dense = Dense("dense", "input", kind, weights=weights)
    table = np.zeros((1, 256), np.int8)
    pixel = TensorType((1, 1, 1))
    task = Classification(("cat", "dog", "frog"))
    model = Model("m", pixel, (dense,), ("dense",), task, Preprocessing("full", "gray", table))
    (first, best), (second, next_best) = top_k(model, np.array([3, 5, 5], np.int8), 2)
    assert (first, second) == ("dog", "frog")
    assert best == next_best
    assert math.isclose(best, 1 / (2 + math.exp(-2)), rel_tol=1e-12)


def test_an_image_is_unknown_below_the_threshold() -> None:
    logits = np.array([[3, 5], [4, 4], [9, -9]], np.int32)[:, np.newaxis, np.newaxis]
    labels = ("cat", "dog")
    assert unknown(Classification(labels), [logits]).tolist() == [False] * 3
    assert unknown(Classification(labels, rejection=Rejection(5)), [logits]).tolist() == [False, True, False]
    second = np.array([-7, -8, 8], np.int8)[:, np.newaxis, np.newaxis, np.newaxis]
    task = Classification(labels, rejection=Rejection(-7, ("familiarity",)))
    assert unknown(task, [logits, second]).tolist() == [False, True, False]
    assert evidence_of([logits, second]).tolist() == [-7, -8, 8]
    most = np.full((3, 1, 1, 1), 2**31 - 1, np.int32)
    assert evidence_of([logits, second, most, most]).tolist() == [2**32 - 2 + each for each in (-7, -8, 8)]
    assert logits_of([logits, second]).tolist() == [[3, 5], [4, 4], [9, -9]]


@given(st.lists(st.integers(-128, 127), min_size=1, max_size=300), st.floats(1e-6, 1e6), st.floats(0.01, 100))
def test_the_scores_of_frames_are_the_scores(logits: list[int], scale: float, temperature: float) -> None:
    kind = TensorType((1, 1, len(logits)), scale=scale)
    row = np.array(logits, np.int8)
    assert np.array_equal(FrameScores(kind, temperature)(row), scores(row, kind, temperature))


@given(
    st.lists(st.tuples(*[st.integers(-128, 127)] * 5), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(-400, 400),
)
def test_known_images_are_those_that_are_not_unknown(rows: list[tuple[int, ...]], others: int, threshold: int) -> None:
    every = np.array(rows, np.int8)
    outputs = [
        every[:, np.newaxis, np.newaxis, :3],
        *(every[:, np.newaxis, np.newaxis, i + 2 : i + 3] for i in range(others)),
    ]
    for task in (Classification(("a", "b", "c")), Classification(("a", "b", "c"), rejection=Rejection(threshold))):
        for some in (outputs, outputs[:1]):
            assert known(task, some) == np.flatnonzero(~unknown(task, some)).tolist()
