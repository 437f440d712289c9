"""A real Home Assistant core at a real broker: which entities it sets up, and whether its commands are carried out.

The core runs with another interpreter, whose environment has homeassistant, home-assistant-frontend and paho-mqtt:

    python reliability/home_assistant.py --python VENV/bin/python --keep   writes benchmarks/results/home-assistant.json

One service with two cameras, of a detection and a classification, is announced with
names, an area and models to choose from. Every entity has to be set up with a value where there is one, each control is
used as a person would and has to show what the service then says, and the core may not complain of anything. The exit
status is 1 otherwise.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from benchmarks.result_file import write_json
from edgemeta import __version__
from rig.broker import Mosquitto
from rig.home_assistant.core import Core
from rig.service_manager import ManagedService
from rig.square_detector import save_square_detector, write_squares
from rig.waiting import RigError, wait_until

DEVICE = "box"
WAITS = 30.0
"""Seconds for a value or the effect of a command."""

UNKNOWN_AT_FIRST = ("event", "button", "image")
"""Platforms whose entities have no value before something happens."""


def service_keys(folder: Path) -> dict[str, Any]:
    """Return the config of the service under test."""
    models = folder / "models"
    models.mkdir()
    write_squares(folder / "squares.png", {(1, 1): "red", (5, 3): "green"})
    save_square_detector(models / "squares.safetensors")
    save_square_detector(models / "other.safetensors", ("red", "green", "blue", "grey"))
    still = {"source": str(folder / "squares.png"), "fps": 5, "loop": True}
    any_score = {"enter_score": 0.001, "leave_score": 0.001}
    yard = {"name": "Hof hinten", "polygon": [[0, 0], [1, 0], [1, 1], [0, 1]]}
    return {
        "device": DEVICE,
        "device_name": "Büro: Kasten",
        "data_folder": str(folder / "state"),
        "model": str(models / "squares.safetensors"),
        "cameras": {
            "back": {**still, "name": "Back porch", "zones": {"yard": yard}, "motion": {"publish": True}},
            "class": {**still, "name": "玄関", "model": "resnet8-cifar10", "reject_unknown": False, "state": any_score},
        },
        "swap": {"model_folder": str(models), "shadow_frames": 1, "trial_frames": 1},
        "stats": {"interval": 1},
        "homeassistant": {"enabled": True, "suggested_area": "Büro", "configuration_url": "http://192.0.2.7:8480"},
        "snapshots": {"interval": 1.0, "events": True, "retain": True},
        "publish": {"plain_counts": True},
    }


class Trial:
    """A service, a core, and what was found wrong."""

    def __init__(self, core: Core, broker: Mosquitto, folder: Path) -> None:
        self.core, self.broker, self.folder = core, broker, folder
        self.wrong: list[str] = []
        self.used: list[str] = []

    def check(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait until something is so; note it otherwise."""
        try:
            wait_until(condition, what, WAITS)
        except RigError as error:
            self.wrong.append(str(error))

    def entity(self, key: str) -> dict[str, Any]:
        """The entity of a component; an empty one where there is none."""
        return self.core.entities().get(f"edgemeta-{DEVICE}.{key}", {"state": None, "attributes": {}})

    def use(self, key: str, service: str, shows: str, **data: Any) -> None:
        """Call a service of an entity, and check what it shows afterwards."""
        self.used.append(service)
        self.core.call(service, self.entity(key)["id"], **data)
        self.check(f"{key} to show {shows} after {service}", lambda: self.entity(key)["state"] == shows)

    def press(self, key: str) -> None:
        """Press a button."""
        self.used.append("button.press")
        self.core.call("button.press", self.entity(key)["id"])


def controls(trial: Trial) -> None:
    """Use every control."""
    trial.use("enabled_back", "switch.turn_off", "off")
    trial.check("the camera to be unavailable", lambda: trial.entity("objects_back")["state"] == "unavailable")
    trial.use("enabled_back", "switch.turn_on", "on")
    trial.check("the camera to be back", lambda: trial.entity("objects_back")["state"] == "2")
    trial.use("limit_back", "number.set_value", "2.5", value=2.5)
    trial.use("limit_back", "number.set_value", "0.0", value=0)
    trial.use("threshold_class", "number.set_value", "0.75", value=0.75)
    trial.use("threshold_back", "number.set_value", "0.3", value=0.3)
    trial.use("choice", "select.select_option", "other", option="other")
    trial.use("choice_class", "select.select_option", "resnet8-cifar10-paper", option="resnet8-cifar10-paper")
    other = trial.folder / "models" / "other.safetensors"
    save_square_detector(other, ("red", "green", "blue", "pink"))
    trial.check("an update to be offered", lambda: trial.entity("update")["state"] == "on")
    trial.use("update", "update.install", "off")
    trial.press("reload")
    trial.check("the choices to be the config's again", lambda: trial.entity("choice")["state"] == "squares")
    before = boot(trial)
    trial.press("restart")
    trial.check("another start of the service", lambda: boot(trial) not in (before, ""))


def boot(trial: Trial) -> str:
    """The start of the service whose settings are at the broker now."""
    done = subprocess.run(
        ["mosquitto_sub", "-p", str(trial.broker.port), "-C", "1", "-W", "5", "-t", "+/+/back/settings"],
        capture_output=True,
        check=False,
        text=True,
    )
    return done.stdout.partition('"boot":"')[2][:32]


def events(trial: Trial) -> None:
    """Let something happen before a camera."""
    write_squares(trial.folder / "squares.png", {(1, 1): "red", (4, 2): "blue", (5, 3): "green"})
    trial.check(
        "an event of the label blue",
        lambda: trial.entity("event_back")["attributes"].get("label") == "blue",
    )


def waiting(entities: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Entities that have no value yet."""
    for key, entity in entities.items():
        if entity["platform"] not in UNKNOWN_AT_FIRST and entity["state"] in (None, "unknown", "unavailable"):
            yield f"{key} ({entity['state']})"


def run(python: Path, folder: Path) -> dict[str, Any]:
    """Run everything; return what is kept."""
    keys = service_keys(folder)
    (folder / "core").mkdir()
    with ExitStack() as ending:
        broker = Mosquitto(folder)
        ending.callback(broker.stop)
        broker.start()
        (folder / "config.yaml").write_text(
            yaml.safe_dump({**keys, "mqtt": {"host": "127.0.0.1", "port": broker.port}})
        )
        core = Core(python, folder / "core", broker.port)
        ending.callback(core.stop)
        service = ManagedService(folder / "config.yaml", folder / "service.log")
        ending.callback(service.close)
        trial = Trial(core, broker, folder)
        trial.check("entities", lambda: len(core.entities()) >= 48)
        began = time.monotonic()
        while (late := list(waiting(core.entities()))) and time.monotonic() < began + WAITS:
            time.sleep(0.5)
        trial.wrong += [f"no value: {each}" for each in late]
        (device,) = [each for each in core.ask(do="devices") if each["sw_version"] == __version__]
        controls(trial)
        events(trial)
        found = core.entities()
        return {
            "core": version_of(python),
            "entities": dict(sorted(Counter(each["platform"] for each in found.values()).items())),
            "device": device,
            "names": sorted(each["name"] for each in found.values() if each["name"] and not each["name"].isascii()),
            "services": sorted(set(trial.used)),
            "wrong": trial.wrong,
            "complaints": core.ask(do="complaints"),
        }


def version_of(python: Path) -> str:
    """Version of the core."""
    code = "import homeassistant.const as c; print(c.__version__)"
    return subprocess.run([str(python), "-c", code], capture_output=True, check=True, text=True).stdout.strip()


def main() -> int:
    """Run, print, and keep what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, required=True, help="interpreter with homeassistant and paho-mqtt")
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/home-assistant.json")
    parser.add_argument("--folder", type=Path, help="folder that stays; default: a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        found = run(arguments.python.absolute(), folder)
    for key, value in found.items():
        print(f"{key}: {value}")
    if arguments.keep:
        write_json("home-assistant", "python reliability/home_assistant.py --python VENV/bin/python --keep", found)
    return 1 if found["wrong"] or found["complaints"] else 0


if __name__ == "__main__":
    sys.exit(main())
