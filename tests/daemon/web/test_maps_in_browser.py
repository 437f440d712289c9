"""Maps of labels and points over the pictures, in a real browser."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.model.file import save
from edgemeta.model.tasks import Keypoints, Segmentation
from tests.daemon.conftest import colour_model
from tests.daemon.web.test_browser import shows, wait
from tests.tasks.models import colour_map_model

PAINTED = """
const canvas = document.querySelector(".overlay canvas");
const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
const colours = [];
for (let at = 0; at < pixels.length; at += 4) colours.push([...pixels.slice(at, at + 4)].join());
return canvas.checkVisibility() ? [canvas.width, canvas.height, colours, canvas.style.cssText] : null;
"""
POINTS = """
const found = [...document.querySelectorAll(".camera:nth-child(2) .overlay .point")];
return found.map((each) => [each.title, parseFloat(each.style.left), parseFloat(each.style.top)]);
"""


@pytest.mark.gate("8 s: a service with a browser")
def test_a_map_of_labels_and_points_lie_over_the_picture(serve: Any, look: Any, tmp_path: Path) -> None:
    picture = np.zeros((40, 80, 3), np.uint8)
    picture[:, :40], picture[:, 40:] = (128, 0, 255), (128, 255, 0)
    cv2.imwrite(str(tmp_path / "picture.png"), picture)
    save(colour_map_model(Segmentation(("red", "green"))), tmp_path / "map.safetensors")
    points = Keypoints(("nose",), "xys", "fraction")
    save(replace(colour_model(), task=points), tmp_path / "points.safetensors")
    source = {"source": str(tmp_path / "picture.png"), "loop": True, "fps": 20}
    page = serve(
        model=str(tmp_path / "map.safetensors"),
        cameras={"map": source, "points": {**source, "model": str(tmp_path / "points.safetensors")}},
    )
    browser = look(page)
    shows(browser, ".camera:nth-child(1) .verdict .label", "green, red")
    columns, rows, colours, style = wait(browser, "cells", lambda: browser.run(PAINTED))
    assert (columns, rows, len(set(colours))) == (8, 8, 2)
    assert colours == (4 * [colours[0]] + 4 * [colours[4]]) * 8
    assert "width: 100%" in style
    shows(browser, ".camera:nth-child(2) .verdict .label", "1 point")
    ((name, left, top),) = wait(browser, "the point", lambda: browser.run(POINTS))
    assert name == "nose"
    assert (left, top) == (100.0, 100.0), "16 times half of the picture: outside, so at its edge"
    assert [line for line in browser.log() if "willReadFrequently" not in line] == []
