"""The live picture, rendered to text."""

import io
from collections.abc import Callable

import pytest

from edgemeta.cli.demo.run import truth_of
from edgemeta.cli.demo.tally import Arrival, Tally
from edgemeta.daemon.scenes.show import SCENES, Show

rich_console = pytest.importorskip("rich.console", reason="needs rich: pip install 'edgemeta[demo]'")

from edgemeta.cli.demo.screen import ScreenView, screen  # noqa: E402

MakeFrame = Callable[..., Arrival]
STRIDE = 90


def rendered(tally: Tally, show: Show | None, ended: str = "") -> list[str]:
    console = rich_console.Console(file=io.StringIO(), width=80, height=24, color_system=None)
    console.print(screen(tally, show, ended))
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


def test_without_a_drawn_camera_there_is_no_picture(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat"))
    text = "\n".join(rendered(tally, None))
    assert "▀" not in text
    assert "cat" in text


def test_the_view_ends_with_the_reason(show: Show, all_scenes: Tally) -> None:
    console = rich_console.Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    with ScreenView(show, console) as view:
        view.show(all_scenes)
        view.interrupted()
        view.show(all_scenes, last=True)
    assert "stopped by you" in console.file.getvalue()
