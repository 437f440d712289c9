"""What the page draws over the pictures, in a real browser: boxes and zones; and what it shows of every task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import pytest

from edgemeta.model.file import save
from edgemeta.model.tasks import Embedding, MultiLabel, ObjectMasks, ObjectPoints
from edgemeta.toolchain.importer.heads.points import BODY
from rig.square_detector import save_square_detector, squares_picture, write_squares
from tests.daemon.conftest import colour_model
from tests.daemon.web.test_browser import CONTRAST, ELSEWHERE, shows, wait

BOXES = """
const box = (element) => element.getBoundingClientRect();
const camera = document.querySelector(arguments[0]);
const image = camera?.querySelector("figure img");
if (!image?.naturalWidth) return [];
const scale = Math.min(image.clientWidth / image.naturalWidth, image.clientHeight / image.naturalHeight);
const left = box(image).left + (image.clientWidth - scale * image.naturalWidth) / 2;
const top = box(image).top + (image.clientHeight - scale * image.naturalHeight) / 2;
const pen = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext("2d", { willReadFrequently: true });
pen.drawImage(image, 0, 0);
return [...camera.querySelectorAll(".overlay .box")].map((each) => {
  const place = box(each);
  const edges = [place.left - left, place.top - top, place.right - left, place.bottom - top].map((at) => at / scale);
  const middle = pen.getImageData((edges[0] + edges[2]) / 2, (edges[1] + edges[3]) / 2, 1, 1).data;
  const colour = ["red", "green", "blue"][middle.indexOf(Math.max(...middle.slice(0, 3)))];
  return { text: each.textContent, edges, colour };
});
"""
"""The boxes that a camera shows, their edges in pixels of the picture, and the picture's colour in their middle."""


@pytest.mark.parametrize(("width", "theme"), [(360, "light"), (1440, "dark")])
def test_boxes_lie_on_the_objects_of_their_own_frame(
    serve: Any, look: Any, tmp_path: Path, width: int, theme: str
) -> None:
    """Pictures that change thirty times a second, a tall and a wide one; 80 labels; text is readable in both themes."""
    clip = tmp_path / "clip"
    clip.mkdir()
    for number, squares in enumerate([{(1, 1): "red", (6, 4): "blue"}, {(2, 3): "green"}, {(6, 0): "blue"}]):
        write_squares(clip / f"{number}.png", squares)
    for name, size in {"wide": (512, 96), "tall": (128, 384)}.items():
        cv2.imwrite(str(tmp_path / f"{name}.png"), cv2.resize(squares_picture({(0, 5): "green"}), size))
    labels = ("red", "green", "blue", *(f"label number {number}" for number in range(77)))
    yard = {"polygon": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}
    page = serve(
        model=str(save_square_detector(tmp_path / "squares.safetensors", labels)),
        cameras={
            "front": {"source": str(clip), "loop": True, "fps": 30, "zones": {"yard": yard, "a" * 64: yard}},
            "tall": {"source": str(tmp_path / "tall.png"), "loop": True, "fps": 10},
            "wide": {"source": str(tmp_path / "wide.png"), "loop": True, "fps": 10},
        },
        web={"max_fps": 30},
    )
    browser = look(page, width, theme)
    seen = set()

    def boxes_of_every_picture() -> bool:
        for box in browser.run(BOXES, ".camera:nth-child(1)"):
            label = box["text"].split()[0]
            assert box["colour"] == label, "picture and boxes of different frames"
            assert [round(edge / 32, 1) % 1 for edge in box["edges"]] == [0, 0, 0, 0]
            seen.add((label, round(box["edges"][0] / 32), round(box["edges"][1] / 32)))
        return seen == {("red", 1, 1), ("blue", 6, 4), ("green", 2, 3), ("blue", 6, 0)}

    wait(browser, "every picture", boxes_of_every_picture)
    for number, edges in {2: [0, 320, 16, 384], 3: [0, 80, 64, 96]}.items():
        camera = f".camera:nth-child({number})"
        (green,) = wait(browser, "its box", lambda camera=camera: browser.run(BOXES, camera))
        assert green["edges"] == pytest.approx(edges, abs=1.5)
    assert browser.run(CONTRAST) == {}
    assert browser.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.run(ELSEWHERE) == []
    assert browser.log() == []


@pytest.mark.gate("13 s: several services with a browser")
def test_every_task_shows_what_it_finds(serve: Any, look: Any, tmp_path: Path, colours: Path) -> None:
    picture = write_squares(tmp_path / "squares.png", {(1, 1): "red", (2, 4): "red", (6, 4): "blue"})
    for name, task in {"labels": MultiLabel(("red", "green", "blue"), 0.9), "vector": Embedding()}.items():
        save(replace(colour_model(), task=task), tmp_path / f"{name}.safetensors")
    yard = {"polygon": [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]}
    gate = {"polygon": [[0.5, 0], [0.9, 0], [0.9, 0.5]]}
    source = {"source": str(picture), "loop": True, "fps": 20}
    page = serve(
        model=str(save_square_detector(tmp_path / "squares.safetensors")),
        cameras={
            "objects": {
                **source,
                "zones": {"yard": yard, "gate": gate},
                "lines": {"door": {"points": [[0, 0], [1, 1]]}},
            },
            "present": {**source, "source": str(colours / "2.png"), "model": str(tmp_path / "labels.safetensors")},
            "vector": {**source, "model": str(tmp_path / "vector.safetensors")},
        },
    )
    browser = look(page)
    shows(browser, ".verdict .label", "3 objects")
    shows(browser, ".scores", "red2blue1")
    shows(browser, ".in-zones", "gateemptyyard2 red")
    wait(browser, "boxes", lambda: len(browser.run(BOXES, ".camera:nth-child(1)")) == 3)
    texts = "return [...document.querySelectorAll('.overlay .box, .overlay .zone')].map((each) => each.textContent)"

    def with_ids() -> list[str]:
        found: list[str] = browser.run(texts)
        return found if sum(len(text.split()) == 4 for text in found) == 3 else []

    shown = wait(browser, "ids", with_ids)
    *objects, door, gate_name, yard_name = sorted(shown, key=lambda text: (" " not in text, text))
    assert (door, gate_name, yard_name) == ("door", "gate", "yard")
    assert [text.split()[0] for text in objects] == ["blue", "red", "red"]
    assert {text.split()[1] for text in objects} == {"1", "2", "3"}
    assert browser.run("return document.querySelectorAll('.overlay polygon').length") == 2
    (line,) = browser.run("return [...document.querySelectorAll('.overlay .line')].map((each) => each.outerHTML)")
    assert 'points="0,0 1000,1000"' in line
    assert "3 objects" in browser.run("return document.querySelector('figure img').alt")
    shows(browser, ".camera:nth-child(2) .verdict .label", "blue")
    shows(browser, ".camera:nth-child(2) .scores", "blue")
    shows(browser, ".camera:nth-child(3) .verdict", "A vector of 3 numbers for each frame")
    assert not browser.run("return document.querySelector('.camera:nth-child(3) .chart').checkVisibility()")
    assert browser.run("return document.querySelectorAll('.camera:nth-child(n + 2) .box').length") == 0
    assert browser.log() == []


EXTRAS = """
const find = (camera, kind) => [...document.querySelectorAll(`.camera:nth-child(${camera}) .overlay ${kind}`)];
const places = (shape) => shape.getAttribute("points").split(" ").map((each) => each.split(",").map(Number));
const names = find(1, ".point").map((each) => each.title);
const stroke = getComputedStyle(find(2, ".mask")[0]).stroke;
return [names, find(1, ".limb").map(places), find(2, ".mask").map(places), stroke];
"""


@pytest.mark.gate("8 s: a service with a browser")
def test_bodies_have_points_and_limbs_and_masks_have_outlines(serve: Any, look: Any, tmp_path: Path) -> None:
    write_squares(tmp_path / "squares.png", {(2, 3): "red"})
    people = ObjectPoints(BODY, "xys", 0.0)
    save_square_detector(tmp_path / "people.safetensors", extras=people)
    save_square_detector(tmp_path / "masks.safetensors", extras=ObjectMasks("prototypes"))
    source = {"source": str(tmp_path / "squares.png"), "loop": True, "fps": 10}
    page = serve(
        model=str(tmp_path / "people.safetensors"),
        cameras={"bodies": source, "masks": {**source, "model": str(tmp_path / "masks.safetensors")}},
    )
    browser = look(page)
    for number in (1, 2):
        shows(browser, f".camera:nth-child({number}) .verdict .label", "1 object")
    wait(browser, "limbs", lambda: browser.run("return document.querySelectorAll('.camera .limb').length;"))
    wait(browser, "masks", lambda: browser.run("return document.querySelectorAll('.camera .mask').length;"))
    names, limbs, masks, stroke = browser.run(EXTRAS)
    assert names == list(BODY)
    assert len(limbs) == 16
    places = {name: 1000 * (2 + 255 * number // 16 / 256) / 8 for number, name in enumerate(BODY)}
    nose, eye = limbs[0]
    assert nose == pytest.approx([places["nose"], 1000 * 3.25 / 6], abs=0.02)
    assert eye == pytest.approx([places["left eye"], 1000 * 3.25 / 6], abs=0.02)
    (corners,) = masks
    assert all(250 <= x <= 375 and 500 <= y <= 666.7 for x, y in corners)
    assert stroke.startswith("rgb")


def test_names_for_people_and_the_device_s_own_health_are_shown(serve: Any, look: Any, tmp_path: Path) -> None:
    picture = write_squares(tmp_path / "squares.png", {(1, 1): "red"})
    yard = {"name": "Hof <b>hinten</b>", "polygon": [[0, 0], [1, 0], [1, 1], [0, 1]]}
    page = serve(
        device_name="Büro: Kasten",
        model=str(save_square_detector(tmp_path / "squares.safetensors")),
        cameras={
            "front": {"name": "玄関", "source": str(picture), "loop": True, "fps": 20, "zones": {"yard": yard}},
            "gone": {"name": "Straße", "source": str(tmp_path / "missing.png")},
        },
        stats={"interval": 1},
    )
    browser = look(page, 1440, "light")
    shows(browser, "#device", "Büro: Kasten")
    shows(browser, ".camera h2", "玄関")
    shows(browser, ".camera .in-zones dt", "Hof <b>hinten</b>")
    shows(browser, ".camera .overlay .zone", "Hof <b>hinten</b>")
    shows(browser, "#connection", "camera Straße failed")
    shows(browser, "#health", "memory")
    assert browser.run(CONTRAST) == {}
    assert browser.log() == []
