"""Write the pictures of the live page that the documents show.

    python benchmarks/page_picture.py

Runs the service with two drawn cameras and one that is away, and a real mosquitto, for as long as the page's chart
reaches back; then a headless Chromium writes docs/images/live-page.png (a desk's screen, light) and live-page-phone.png
(dark). The font is Inter where it is installed (Debian package fonts-inter).

    python benchmarks/page_picture.py --model yolox.safetensors --photos FOLDER

writes docs/images/objects.png instead: a camera for each photograph of the folder, and the boxes that the detection
finds. Those of the picture are astronaut.png (NASA, public domain) and coffee.png (CC0, Rachel Michetti) out of the
package scikit-image, folder skimage/data.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from rig.broker import Mosquitto
from rig.browser import Browser, chromium, missing
from rig.service_manager import ManagedService
from rig.waiting import free_port

IMAGES = Path(__file__).parent.parent / "docs" / "images"


DRAWN = {
    "meadow": {"source": "synthetic://?seed=3&scene=17", "fps": 30},
    "driveway": {"source": "synthetic://?seed=11&scene=23", "fps": 15},
    "gate": {"source": "rtsp://viewer:secret@127.0.0.1:9/stream1"},
}
"""Two drawn cameras, and one that is away."""


def cameras_of(photos: Path) -> dict[str, dict[str, Any]]:
    """Return a camera for each photograph, with a zone at the bottom."""
    zone = {"polygon": [[0.04, 0.6], [0.96, 0.5], [0.96, 0.96], [0.04, 0.96]]}
    found = sorted(each for each in photos.iterdir() if each.suffix in (".png", ".jpg"))
    return {
        each.stem: {"source": str(each.resolve()), "fps": 4, "loop": True, "zones": {"front": zone}} for each in found
    }


def config(folder: Path, broker: int, page: int, cameras: dict[str, dict[str, Any]], **keys: str) -> Path:
    """Write the config of the device in the picture."""
    path = folder / "config.yaml"
    content = {
        **keys,
        "device": "orchard-3",
        "cameras": cameras,
        "mqtt": {"host": "127.0.0.1", "port": broker},
        "data_folder": str(folder / "state"),
        "web": {"enabled": True, "port": page},
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def photograph(browser: Browser, page: int, name: str, theme: str, width: int, height: int | None) -> None:
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


def main() -> None:
    """Run the service, wait, and take the pictures."""
    parser = argparse.ArgumentParser(description="Take the pictures of the live page.")
    parser.add_argument("--seconds", type=float, default=125.0, help="of service before the picture (default 125)")
    parser.add_argument("--model", type=Path, help="detection whose boxes are shown, with --photos")
    parser.add_argument("--photos", type=Path, help="folder of photographs")
    options = parser.parse_args()
    if (options.model is None) != (options.photos is None):
        parser.error("--model and --photos go together")
    cameras, keys = DRAWN, {}
    if options.model is not None:
        cameras, keys = cameras_of(options.photos), {"model": str(options.model.resolve())}
    if reason := missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name), free_port()
        broker = Mosquitto(folder)
        broker.start()
        service = ManagedService(config(folder, broker.port, page, cameras, **keys), folder / "log")
        try:
            service.ready()
            time.sleep(options.seconds)
            with chromium() as browser:
                if options.model is not None:
                    photograph(browser, page, "objects.png", "light", 1100, 720)
                else:
                    photograph(browser, page, "live-page.png", "light", 1280, None)
                    photograph(browser, page, "live-page-phone.png", "dark", 390, 844)
        finally:
            service.stop()
            broker.stop()


if __name__ == "__main__":
    main()
