"""Which cells answer for a box, and a loss that is least where the answers are right."""

import numpy as np
import pytest
import torch

from edgemeta.model.tasks import Detection, DetectionLevel
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.train.boxes.loss import Wanted, answers, decoded, flattened, label_loss, teacher_loss
from edgemeta.toolchain.train.boxes.network import GridDesign, grid_network
from edgemeta.toolchain.train.boxes.views import cells

SIZE = 64
CELLS = torch.from_numpy(cells((SIZE, SIZE)))
LABELS = ("red", "blue")
BOXES = Wanted(torch.tensor([[4.0, 4.0, 20.0, 20.0], [20.0, 8.0, 60.0, 60.0]]), torch.tensor([0, 1]))
NOTHING = Wanted(torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
KNOWN = torch.ones(1, len(CELLS), 2, dtype=torch.bool)


def encoded(boxes: torch.Tensor) -> torch.Tensor:
    """The numbers of boxes [cells, 4] by decoding "yolox"."""
    stride = CELLS[:, 2:]
    centre, sides = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    return torch.cat([(centre - CELLS[:, :2]) / stride + 0.5, torch.log(sides / stride)], 1)


def right_answers() -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes and logits of a network that is right: each cell has the nearest box, only the best are sure."""
    middle = (BOXES.boxes[:, :2] + BOXES.boxes[:, 2:]) / 2
    nearest = (CELLS[:, None, :2] - middle).norm(dim=-1).argmin(1)
    boxes = decoded(encoded(BOXES.boxes[nearest]), CELLS)[None]
    logits = torch.full((1, len(CELLS), 2), -12.0)
    cell, box, _ = answers(boxes[0], logits[0], BOXES, CELLS)
    logits[0, cell, BOXES.classes[box]] = 12.0
    return boxes, logits


def test_boxes_are_decoded_as_the_task_says() -> None:
    network = grid_network(GridDesign((SIZE, SIZE), 0.25), LABELS)
    rng = np.random.default_rng(1)
    outputs = tuple(
        torch.from_numpy(rng.normal(0, 1, (1, 4 if number % 2 == 0 else 2, side, side)).astype(np.float32) * 0.5)
        for number, side in enumerate((8, 8, 4, 4, 2, 2))
    )
    boxes, logits = flattened(outputs, CELLS)
    detector = FloatDetector(network.written(), dict.fromkeys(LABELS, 0.5))
    found = detector.objects([each.permute(0, 2, 3, 1).numpy() for each in outputs])
    best = found[0]
    cell = int(logits[0].max(1).values.argmax())
    assert best.score == pytest.approx(float(logits[0, cell].sigmoid().max()), abs=1e-4)
    assert np.allclose(best.box, boxes[0, cell].clamp(0, SIZE), atol=0.01)


def test_answering_cells_are_in_the_box_or_near_its_centre() -> None:
    boxes, logits = right_answers()
    cell, box, shared = answers(boxes[0], logits[0], BOXES, CELLS)
    assert set(box.tolist()) == {0, 1}
    assert len(set(cell.tolist())) == len(cell), "a cell answers for one box"
    for place, number in zip(cell.tolist(), box.tolist(), strict=True):
        x, y, stride = CELLS[place].tolist()
        x0, y0, x1, y1 = BOXES.boxes[number].tolist()
        near = np.hypot(x - (x0 + x1) / 2, y - (y0 + y1) / 2) < 1.5 * stride
        assert near or (x0 < x < x1 and y0 < y < y1)
    assert shared.min() > 0.99


def test_a_box_without_any_cell_inside_is_answered_by_one_near_it() -> None:
    tiny = Wanted(torch.tensor([[30.0, 30.0, 33.0, 33.0]]), torch.tensor([1]))
    boxes = decoded(torch.zeros(len(CELLS), 4), CELLS)
    cell, box, _ = answers(boxes, torch.zeros(len(CELLS), 2), tiny, CELLS)
    assert len(cell) >= 1
    assert box.tolist() == [0] * len(cell)


def test_right_answers_cost_nothing_and_others_do() -> None:
    boxes, logits = right_answers()
    right = float(label_loss(boxes, logits, [BOXES], KNOWN, CELLS))
    assert right < 1e-3
    assert float(label_loss(boxes + 3, logits, [BOXES], KNOWN, CELLS)) > 10 * right
    assert float(label_loss(boxes, -logits, [BOXES], KNOWN, CELLS)) > 1


def test_what_is_not_known_costs_nothing_but_what_was_annotated_does() -> None:
    boxes, logits = right_answers()
    sure = logits.clone()
    sure[..., 0] = 5.0  # red everywhere
    none = KNOWN.clone()
    none[..., 0] = False
    nothing = -12 * torch.ones_like(logits)
    nothing[..., 0] = 5.0
    assert float(label_loss(boxes, nothing, [NOTHING], none, CELLS)) < 1e-6
    assert float(label_loss(boxes, sure, [BOXES], KNOWN, CELLS)) > 1
    assert float(label_loss(boxes, -12 * torch.ones_like(logits), [BOXES], ~KNOWN, CELLS)) > 1


def test_what_has_a_box_is_nothing_else_though_its_picture_was_not_annotated_with_it() -> None:
    """A cell whose box is that of a blue thing is not red, whether it answers for it or not."""
    boxes, logits = right_answers()
    unknown = KNOWN.clone()
    unknown[..., 0] = False
    answering, _, _ = answers(boxes[0], logits[0], BOXES, CELLS)
    blue = torch.nonzero((boxes[0] == BOXES.boxes[1]).all(1)).squeeze(1).tolist()
    others = sorted(set(blue) - set(answering.tolist()))
    assert others
    for cell in (others[0], next(cell for cell in blue if cell in answering.tolist())):
        wrong = logits.clone()
        wrong[0, cell, 0] = 5.0
        assert float(label_loss(boxes, wrong, [BOXES], unknown, CELLS)) > 0.1
        away = boxes.clone()
        away[0, others[0]] = torch.tensor([0.0, 40.0, 8.0, 48.0])
        of_none = logits.clone()
        of_none[0, others[0], 0] = 5.0
        assert float(label_loss(away, of_none, [BOXES], unknown, CELLS)) < 1e-3


def test_a_view_without_objects_has_a_loss_too() -> None:
    boxes, logits = decoded(torch.zeros(1, len(CELLS), 4), CELLS), torch.zeros(1, len(CELLS), 2, requires_grad=True)
    loss = label_loss(boxes, logits, [NOTHING], KNOWN, CELLS)
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert (logits.grad > 0).all()


def test_a_teacher_is_followed_but_where_labels_rule() -> None:
    boxes, logits = right_answers()
    scores = logits.sigmoid()[..., :1]
    labels, free = torch.tensor([0]), torch.zeros(1, len(CELLS), dtype=torch.bool)
    assert float(teacher_loss(boxes, logits, boxes, scores, labels, free)) < 1e-3
    assert float(teacher_loss(boxes + 4, logits, boxes, scores, labels, free)) > 0.1
    assert float(teacher_loss(boxes, -logits, boxes, scores, labels, free)) > 1
    assert float(teacher_loss(boxes + 4, -logits, boxes, scores, labels, ~free)) == 0


def test_levels_of_the_task_are_those_of_the_cells() -> None:
    task = grid_network(GridDesign((SIZE, SIZE), 0.25), LABELS).task
    assert isinstance(task, Detection)
    assert task.levels[0] == DetectionLevel("boxes8", "classes8")
