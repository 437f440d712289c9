"""Objects of two networks, matched."""

import numpy as np
import pytest

from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv
from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.keypoints import Keypoint
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.quantize.compare import Matches


def thing(label: str, left: float, score: float = 0.9) -> Object:
    return Object(label, score, (left, 0.0, left + 10.0, 10.0))


def test_objects_match_by_label_and_place_once() -> None:
    matches = Matches()
    wanted = [thing("cat", 0), thing("dog", 100), thing("cat", 200)]
    matches.add(wanted, [thing("cat", 1), thing("cat", 2), thing("cat", 101), thing("cat", 206)])
    assert (matches.wanted, matches.found, matches.matched) == (3, 4, 1)
    assert matches.f1 == pytest.approx(2 / 7)


def test_objects_at_all_scores_count_by_their_score() -> None:
    """A cat of 0.9 is there at 18 least scores, a dog of 0.32 at 6; the other network says 0.9 and 0.27."""
    matches = Matches()
    matches.add_at_all_scores([thing("cat", 0), thing("dog", 100, 0.32)], [thing("cat", 0), thing("dog", 100, 0.27)])
    assert (matches.wanted, matches.found, matches.matched) == (18 + 6, 18 + 5, 18 + 5)
    weights = np.sqrt([4] * 5 + [3] + [2] * 12)  # at each least score; nothing is found at 0.95
    assert matches.quality_of_scores == pytest.approx(1 - weights[5] / 3 / weights.sum())
    assert Matches().quality_of_scores == 1


def test_many_of_the_least_score_do_not_outvote_the_others() -> None:
    weak, sure = [thing("cat", 100 * i, 0.06) for i in range(100)], [thing("dog", -100)]
    only_sure, only_weak = Matches(), Matches()
    only_sure.add_at_all_scores([*sure, *weak], sure)
    only_weak.add_at_all_scores([*sure, *weak], weak)
    assert only_sure.f1 < 0.3 < 0.9 < only_weak.f1
    assert only_sure.quality_of_scores > 0.5 > only_weak.quality_of_scores


def test_a_box_counts_by_its_overlap() -> None:
    """A cat that is moved by a tenth of its side shares 9 / 11; both are there at 18 least scores."""
    matches = Matches()
    matches.add_at_all_scores([thing("cat", 0)], [thing("cat", 1)])
    assert matches.f1 == 1
    assert matches.quality_of_scores == pytest.approx(9 / 11)


def test_images_without_objects() -> None:
    matches = Matches()
    assert matches.f1 == 1
    matches.add([], [])
    matches.add([thing("cat", 0)], [])
    matches.add([], [thing("cat", 0)])
    assert (matches.f1, matches.wanted, matches.found) == (0, 1, 1)


def test_float_outputs_are_decoded_as_defined() -> None:
    """YOLOX: centre ((x + t0) sx, (y + t1) sy), size (e**t2 sx, e**t3 sy), score sigmoid times sigmoid."""
    weight = np.zeros((4, 1, 1, 3), np.float32)
    layers = (
        Conv("boxes", "input", weights=weight),
        Conv("objectness", "input", weights=weight[:1]),
        Conv("classes", "input", weights=weight[:2]),
    )
    task = Detection(("cat", "dog"), "yolox", (DetectionLevel("boxes", "classes", "objectness"),))
    model = FloatModel("m", (4, 4, 3), layers, ("boxes", "objectness", "classes"), task)
    boxes, objectness = np.zeros((1, 4, 4, 4)), np.full((1, 4, 4, 1), -9.0)
    classes = np.zeros((1, 4, 4, 2))
    boxes[0, 1, 2], objectness[0, 1, 2], classes[0, 1, 2] = (0.5, 0.25, np.log(2.0), 0.0), 3.0, (-9.0, 2.0)
    (found,) = FloatDetector(model).objects([boxes, objectness, classes])
    assert found.label == "dog"
    assert found.score == pytest.approx(1 / (1 + np.exp(-3)) / (1 + np.exp(-2)), abs=1e-4)
    np.testing.assert_allclose(found.box, (1.5, 0.75, 3.5, 1.75), atol=1e-3)


def test_points_are_compared_in_sides_of_the_box() -> None:
    """A box of 10 x 40 pixels has a side of 20: points that are 3 and 4 pixels off are 0.175 of it off."""
    wanted = Object("a", 0.9, (0.0, 0.0, 10.0, 40.0), (Keypoint("x", 1.0, 1.0, None), Keypoint("y", 5.0, 5.0, None)))
    found = wanted._replace(keypoints=(Keypoint("x", 4.0, 1.0, None), Keypoint("y", 5.0, 1.0, None)))
    other = Object("a", 0.8, (50.0, 0.0, 60.0, 40.0), found.keypoints)
    matches = Matches()
    assert matches.points_off is None
    matches.add([wanted], [found, other])
    assert matches.points_off == pytest.approx((3 + 4) / 2 / 20)
