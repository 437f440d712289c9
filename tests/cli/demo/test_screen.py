"""The live screen, rendered to text."""

import io
from collections.abc import Callable

import numpy as np
import pytest

from edgemeta.cli.demo.pixels import DemoPicture, drawn, free_port, from_page
from edgemeta.cli.demo.run import truth_of
from edgemeta.cli.demo.screen import colour_of, with_boxes
from edgemeta.cli.demo.tally import Arrival, Tally
from edgemeta.daemon.messages.records import FoundKeypoint
from edgemeta.plugins.drawn.show import SCENES, Show

rich_console = pytest.importorskip("rich.console", reason="needs rich: pip install 'edgemeta[demo]'")

from edgemeta.cli.demo.screen import Layout, ScreenView, screen  # noqa: E402

MakeFrame = Callable[..., Arrival]
STRIDE = 90


def rendered(tally: Tally, show: Show | None, width: int = 80, height: int = 24) -> list[str]:
    console = rich_console.Console(file=io.StringIO(), width=width, height=height, color_system=None)
    assert tally.frame is not None
    picture = None if show is None else drawn(show)(tally.frame)
    console.print(screen(tally, picture, "", Layout.of(width, height)))
    text: str = console.file.getvalue()
    return text.splitlines()


@pytest.fixture
def show() -> Show:
    return Show(frames_per_scene=STRIDE)


@pytest.fixture
def all_scenes(show: Show, frame_arrival: MakeFrame) -> Tally:
    tally = Tally(truth_of(show))
    for index in range(len(SCENES)):
        tally.add(frame_arrival(index * STRIDE + 1, SCENES[index].label))
    return tally


def test_it_fits_a_terminal_of_80_by_24(show: Show, all_scenes: Tally) -> None:
    lines = rendered(all_scenes, show)
    assert len(lines) < 24
    assert {len(line) for line in lines} == {80}


@pytest.mark.parametrize(
    ("width", "height", "panel", "side"),
    [
        (80, 24, 80, 32),
        (60, 10, 80, 32),
        (100, 40, 100, 52),
        (120, 40, 120, 64),
        (200, 50, 140, 64),
        (200, 24, 140, 32),
    ],
)
def test_it_uses_the_terminals_size(
    show: Show, all_scenes: Tally, width: int, height: int, panel: int, side: int
) -> None:
    """Wider than 140 columns it would only be harder to read."""
    layout = Layout.of(width, height)
    assert (layout.width, layout.frame_side) == (panel, side)
    lines = rendered(all_scenes, show, max(width, 80), height)
    assert {len(line.rstrip()) for line in lines} == {panel}
    assert len(lines) < max(height, 24)
    assert "\n".join(lines).count("▀") == side * side // 2


def test_it_shows_label_score_latencies_and_recognition(show: Show, all_scenes: Tally) -> None:
    text = "\n".join(rendered(all_scenes, show))
    for part in ("resnet8-cifar10", "abababab", "cpu", "87.5%", "inference", "80", "delivered", "2,000", "100%"):
        assert part in text
    for scene in SCENES:
        assert scene.label in text
    assert text.count("▀") == 32 * 16


def test_it_shows_the_last_change_of_state(show: Show, all_scenes: Tally, event_arrival: MakeFrame) -> None:
    all_scenes.add(event_arrival(900, "truck", "ship"))
    lines = rendered(all_scenes, show)
    assert any("event  truck after 2.5 s of ship" in line for line in lines)
    assert len(lines) < 24
    assert {len(line) for line in lines} == {80}


def test_a_view_without_colours_requests_no_frame(all_scenes: Tally) -> None:
    console = rich_console.Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)
    with ScreenView(pytest.fail, console) as view:  # type: ignore[arg-type]
        view.show(all_scenes)


def test_a_missing_page_has_no_frame(all_scenes: Tally) -> None:
    assert all_scenes.frame is not None
    assert from_page(free_port())(all_scenes.frame) is None


@pytest.mark.parametrize(("width", "height", "picture"), [(80, 24, (36, 28)), (120, 40, (76, 56)), (140, 60, (96, 72))])
def test_objects_are_drawn_into_the_whole_picture_and_listed(
    objects_arrival: MakeFrame, width: int, height: int, picture: tuple[int, int]
) -> None:
    """Thirty objects are more than there is room for."""
    persons = [("person", 0.9 - number / 100, (0.5, 0.25, 0.75, 0.75)) for number in range(30)]
    tally = Tally()
    tally.add(objects_arrival(1, ("a car of a long name", 0.995, (0.0, 0.0, 0.25, 0.5)), *persons))
    assert tally.frame is not None
    assert tally.frame.objects is not None
    shot = DemoPicture(np.full((480, 640, 3), 40, np.uint8), tally.frame.objects)
    layout = Layout.of(width, height)
    drawn_picture = with_boxes(shot, *layout.picture)
    assert drawn_picture.shape[1::-1] == picture
    right, bottom = picture[0] // 4 - 1, picture[1] // 2 - 1
    coloured = np.argwhere((drawn_picture == colour_of("a car of a long name")).all(axis=2))
    edges = {(y, x) for y in range(bottom + 1) for x in range(right + 1) if y in (0, bottom) or x in (0, right)}
    assert {(int(y), int(x)) for y, x in coloured} == edges
    console = rich_console.Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(screen(tally, shot, "", layout))
    lines = console.file.getvalue().splitlines()
    assert len(lines) < height
    assert {len(line) for line in lines} == {width}
    text = "\n".join(lines)
    for part in ("a car of a lo", "person", "90%", "present  30 person", "9,000", "yolox"):
        assert part in text


def test_points_and_masks_of_objects_are_drawn(objects_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(objects_arrival(1, ("a", 0.9, (0.0, 0.0, 1.0, 1.0))))
    assert tally.frame is not None
    (found,) = tally.frame.objects or ()
    points = [
        FoundKeypoint(name=name, point=(0, 0), point_relative=place, score=score)
        for name, place, score in (("seen", (0.5, 0.25), None), ("hidden", (0.25, 0.5), 0.4), ("edge", (1.0, 1.0), 0.9))
    ]
    corners = [(0.25, 0.25), (0.75, 0.25), (0.75, 0.75)]
    found = found.model_copy(update={"keypoints": points, "outline_relative": corners})
    drawn_picture = with_boxes(DemoPicture(np.full((40, 40, 3), 40, np.uint8), [found]), 40, 40)
    assert np.argwhere((drawn_picture == 255).all(axis=2)).tolist() == [[10, 20], [39, 39]]
    assert (drawn_picture[25, 25] == colour_of("a")).all()
    assert (drawn_picture[30, 15] == 40).all()


def test_other_tasks_have_a_screen(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat"))
    assert tally.frame is not None
    for update, part in (
        ({"labels": [], "state": None, "counts": {}}, "nothing in this frame"),
        ({"state": None, "counts": {"cat": 1}}, "present  1 cat"),
        ({"labels": [], "state": None, "embedding": [0.6, 0.8]}, "a vector of 2 numbers"),
    ):
        other = Tally()
        frame = tally.frame.model_copy(update=update)
        other.add(Arrival("edgemeta/demo/camera/frame", frame.model_dump_json().encode(), frame.captured))
        assert part in "\n".join(rendered(other, None))


def test_without_a_frame_nothing_is_drawn(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat"))
    text = "\n".join(rendered(tally, None))
    assert "▀" not in text
    assert "cat" in text


def test_the_view_ends_with_the_reason(show: Show, all_scenes: Tally) -> None:
    console = rich_console.Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    with ScreenView(drawn(show), console) as view:
        view.show(all_scenes)
        view.interrupted()
        view.show(all_scenes, last=True)
    assert "stopped by you" in console.file.getvalue()


def test_a_detection_is_compared_with_what_is_shown(objects_arrival: MakeFrame) -> None:
    tally = Tally(lambda sequence: "cat" if sequence < 3 else "person")
    for sequence in (1, 2, 3):
        tally.add(objects_arrival(sequence, ("car", 0.9, (0, 0, 0.5, 0.5)), ("cat", 0.6, (0.5, 0.5, 1, 1))))
    assert (tally.recognized("cat"), tally.recognized("person")) == (1, 0)
    assert "shown  person  ✗" in "\n".join(rendered(tally, None))
