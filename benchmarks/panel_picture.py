"""Write the pictures of docs/ten-minutes.md: the panel for collecting and teaching, with a drawn gate as its camera.

    python benchmarks/panel_picture.py

Runs the service and a real mosquitto, collects two states with the panel's button in a headless Chromium, teaches and
uses the network, and writes docs/images/teach-collect.png (while the button is held), teach-result.png,
teach-in-use.png (the camera's card after it) and teach-phone.png. The font is Inter where it is installed (Debian
package fonts-inter).
"""

import sys
import tempfile
import time
from pathlib import Path

import yaml
from PIL import Image

from benchmarks.page_picture import IMAGES
from rig.broker import Mosquitto
from rig.browser import Browser, chromium, missing
from rig.gate_camera import STATES, GateCamera
from rig.service_manager import ManagedService
from rig.teaching_panel import TeachingPanel
from rig.waiting import free_port, wait_until

TOKEN = "0123456789abcdef-picture"
WIDTH = 1160
PICTURES = 24
"""Of each state."""


def config(folder: Path, gate: GateCamera, broker: int, page: int) -> Path:
    """Write the config of the device in the pictures."""
    path = folder / "config.yaml"
    content = {
        "device": "yard",
        "cameras": {"front": gate.keys},
        "collect": {"max_fps": 4},
        "swap": {"shadow_frames": 5, "trial_frames": 5},
        "mqtt": {"host": "127.0.0.1", "port": broker},
        "data_folder": str(folder / "state"),
        "web": {"enabled": True, "port": page, "token": TOKEN},
    }
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


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


def main() -> None:
    """Run the service and take the pictures."""
    if reason := missing():
        sys.exit(reason)
    with tempfile.TemporaryDirectory() as name:
        folder, page = Path(name), free_port()
        broker, gate = Mosquitto(folder), GateCamera(folder / "gate.png")
        broker.start()
        gate.start()
        service = ManagedService(config(folder, gate, broker.port, page), folder / "log")
        try:
            service.ready()
            with chromium() as browser:
                take(browser, gate, page)
        finally:
            service.stop()
            gate.stop()
            broker.stop()


if __name__ == "__main__":
    main()
