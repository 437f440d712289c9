"""Writes the pictures that the documents show, into docs/images.

    python -m tools.pictures demo
    python -m tools.pictures page [--seconds 125]
    python -m tools.pictures objects --model yolox.safetensors --photos FOLDER [--seconds 125]
    python -m tools.pictures panel

demo: runs the demo for one round of its scenes, as `edgemeta demo` does, and writes its last screen to demo.svg.

page: runs the service with two drawn cameras and one that is away, and a real mosquitto, for as long as the page's
chart reaches back; then a headless Chromium writes live-page.png (a desk's screen, light) and live-page-phone.png
(dark). The font is Inter where it is installed (Debian package fonts-inter).

objects: writes objects.png: a camera for each photograph of the folder, and the boxes that the detection finds. Those
of the picture are astronaut.png (NASA, public domain) and coffee.png (CC0, Rachel Michetti) out of the package
scikit-image, folder skimage/data.

panel: the panel for collecting and teaching, with a drawn gate as its camera. Collects two states with the panel's
button, teaches and uses the network, and writes teach-collect.png (while the button is held), teach-result.png,
teach-in-use.png (the camera's card after it) and teach-phone.png.
"""

import argparse
import io
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from PIL import Image
from rich.console import Console

from edgemeta.cli.demo.command import SECONDS, source_for
from edgemeta.cli.demo.pixels import drawn
from edgemeta.cli.demo.run import run_demo, show_for
from edgemeta.cli.demo.screen import SMALLEST, screen
from edgemeta.cli.demo.tally import Tally
from edgemeta.cli.demo.view import View
from edgemeta.cli.options import load_model
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.zoo import DEFAULT
from rig.broker import Mosquitto
from rig.browser import Browser, chromium, missing
from rig.gate_camera import STATES, GateCamera
from rig.service_manager import ManagedService
from rig.teaching_panel import TeachingPanel
from rig.waiting import free_port, wait_until

IMAGES = Path(__file__).parent.parent / "docs" / "images"
FONTS = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
FONT_SIZE, LINE_HEIGHT = 20, 24.4
"""Of rich's SVG, in its units: a line's box begins FONT_SIZE - 1.5 above the baseline."""

HALF_BLOCK = re.compile(r'<text class="(\S+)" x="([\d.]+)" y="([\d.]+)" textLength="([\d.]+)"[^>]*>▀+</text>')
DRAWN = {
    "meadow": {"source": "synthetic://?seed=3&scene=17", "fps": 30},
    "driveway": {"source": "synthetic://?seed=11&scene=23", "fps": 15},
    "gate": {"source": "rtsp://viewer:secret@127.0.0.1:9/stream1"},
}
"""Two drawn cameras, and one that is away."""

TOKEN = "0123456789abcdef-picture"  # noqa: S105
WIDTH = 1160
PICTURES = 24
"""Of each state."""


def main() -> None:
    """Take the pictures that the command names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("demo")
    commands.add_parser("panel")
    page, objects = commands.add_parser("page"), commands.add_parser("objects")
    for each in (page, objects):
        each.add_argument("--seconds", type=float, default=125.0, help="of service before the picture (default 125)")
    objects.add_argument("--model", type=Path, required=True, help="detection whose boxes are shown")
    objects.add_argument("--photos", type=Path, required=True, help="folder of photographs")
    options = parser.parse_args()
    if options.command != "demo" and (reason := missing()):
        sys.exit(reason)
    if options.command == "demo":
        picture_of_the_demo()
    elif options.command == "panel":
        pictures_of_the_panel()
    elif options.command == "page":
        pictures_of_the_page(options.seconds, DRAWN)
    else:
        model = str(options.model.resolve())
        pictures_of_the_page(options.seconds, cameras_of(options.photos), model=model)


def picture_of_the_demo() -> None:
    """Run the demo and write the picture, which loads no font from elsewhere."""
    source = SourceAddress(source_for(load_model(DEFAULT))[0])
    photographer = Photographer(source)
    tally = run_demo(source, SECONDS, photographer)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", photographer.svg, flags=re.DOTALL)
    svg = HALF_BLOCK.sub(_upper_half, svg)
    svg = re.sub(r"font-family: (Fira Code, monospace|arial)", f"font-family: {FONTS}", svg)
    picture = IMAGES / "demo.svg"
    write_atomically(picture, svg.encode())
    print(f"{picture.name}: {tally.frames} frame messages, {tally.dropped} dropped")


class Photographer(View):
    """Draws like the terminal's view, into a file, and keeps the last screen as SVG."""

    def __init__(self, source: SourceAddress) -> None:
        show = show_for(source)
        assert show is not None
        self._frame_of = drawn(show)
        self.svg = ""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to end."""

    def show(self, tally: Tally, last: bool = False) -> None:
        """Take the picture when it is over."""
        if last:
            console = Console(
                file=io.StringIO(), record=True, width=SMALLEST.width, color_system="truecolor", force_terminal=True
            )
            assert tally.frame is not None
            console.print(screen(tally, self._frame_of(tally.frame), "time is up"))
            self.svg = console.export_svg(title="edgemeta demo", unique_id="demo")

    def interrupted(self) -> None:
        """Continue; the picture is written anyway."""


def _upper_half(text: re.Match[str]) -> str:
    """Draw the upper pixels as rectangles: half blocks leave seams in many fonts."""
    style, x, baseline, length = text.groups()
    top = float(baseline) - FONT_SIZE + 1.5
    return f'<rect class="{style}" x="{x}" y="{top:g}" width="{float(length) + 0.25:g}" height="{LINE_HEIGHT / 2:g}"/>'


@contextmanager
def served(folder: Path, **config: Any) -> Iterator[int]:
    """Run the service with a broker and a page beside it, at the port that is returned."""
    page, broker = free_port(), Mosquitto(folder)
    broker.start()
    path = folder / "config.yaml"
    content = {
        **config,
        "mqtt": {"host": "127.0.0.1", "port": broker.port},
        "data_folder": str(folder / "state"),
        "web": {"enabled": True, "port": page, **config.get("web", {})},
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    service = ManagedService(path, folder / "log")
    try:
        service.ready()
        yield page
    finally:
        service.stop()
        broker.stop()


def pictures_of_the_page(seconds: float, cameras: dict[str, dict[str, Any]], **keys: str) -> None:
    """Run the service, wait, and take the pictures; keys: of the config, `model` where objects are shown."""
    with (
        tempfile.TemporaryDirectory() as name,
        served(Path(name), **keys, device="orchard-3", cameras=cameras) as page,
    ):
        time.sleep(seconds)
        with chromium() as browser:
            if keys:
                photograph_page(browser, page, "objects.png", "light", 1100, 720)
            else:
                photograph_page(browser, page, "live-page.png", "light", 1280, None)
                photograph_page(browser, page, "live-page-phone.png", "dark", 390, 844)


def cameras_of(photos: Path) -> dict[str, dict[str, Any]]:
    """Return a camera for each photograph_page, with a zone at the bottom."""
    zone = {"polygon": [[0.04, 0.6], [0.96, 0.5], [0.96, 0.96], [0.04, 0.96]]}
    found = sorted(each for each in photos.iterdir() if each.suffix in (".png", ".jpg"))
    return {
        each.stem: {"source": str(each.resolve()), "fps": 4, "loop": True, "zones": {"front": zone}} for each in found
    }


def photograph_page(browser: Browser, page: int, name: str, theme: str, width: int, height: int | None) -> None:
    """Write one picture; without a height it is the whole page's."""
    browser.theme(theme)
    browser.size(width, height or 1000)
    browser.driver.get(f"http://127.0.0.1:{page}/")
    time.sleep(2)
    if height is None:
        browser.size(width, browser.run("return document.documentElement.scrollHeight"))
    time.sleep(2)
    if complaints := browser.log():
        sys.exit(f"the browser complains: {complaints}")
    path = IMAGES / name
    browser.driver.save_screenshot(str(path))
    with Image.open(path) as picture:
        picture.convert("RGB").save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def pictures_of_the_panel() -> None:
    """Run the service with the gate's camera, and take the pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gate = GateCamera(folder / "gate.png")
        gate.start()
        try:
            with (
                served(
                    folder,
                    device="yard",
                    cameras={"front": gate.keys},
                    collect={"max_fps": 4},
                    swap={"shadow_frames": 5, "trial_frames": 5},
                    web={"token": TOKEN},
                ) as page,
                chromium() as browser,
            ):
                take(browser, gate, page)
        finally:
            gate.stop()


def photograph(browser: Browser, name: str, selector: str) -> None:
    """Write a picture of one element."""
    path = IMAGES / name
    browser.driver.find_element("css selector", selector).screenshot(str(path))
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(160).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


def take(browser: Browser, gate: GateCamera, page: int) -> None:
    """Go the whole way, and take the pictures on it."""
    browser.theme("light")
    browser.size(WIDTH, 2000)
    panel = TeachingPanel(browser)
    panel.open(page, TOKEN)
    for state in STATES:
        gate.state = state
        time.sleep(0.5)
        with panel.held(state):
            wait_until(lambda state=state: panel.count(state) >= PICTURES, state)
            wait_until(lambda: panel.thumbnails > 0, "the thumbnails")
            if state == STATES[-1]:
                photograph(browser, "teach-collect.png", "#teach")
    panel.click("#teach-start")
    wait_until(lambda: "held out" in browser.text("#teach-result"), "the network")
    photograph(browser, "teach-result.png", "#teach")
    panel.click("#teach-use")
    wait_until(lambda: "In use." in browser.text("#teach-used"), "the swap")
    gate.state = STATES[0]
    wait_until(lambda: browser.text(".verdict .label") == STATES[0], STATES[0])
    time.sleep(8)
    gate.state = STATES[1]
    wait_until(lambda: browser.text(".verdict .label") == STATES[1], STATES[1])
    time.sleep(4)
    photograph(browser, "teach-in-use.png", ".camera")
    browser.theme("dark")
    browser.size(390, 2400)
    browser.run("document.querySelector('#teach').scrollIntoView()")
    time.sleep(1)
    photograph(browser, "teach-phone.png", "#teach")
    if complaints := browser.log():
        sys.exit(f"the browser complains: {complaints}")


if __name__ == "__main__":
    main()
