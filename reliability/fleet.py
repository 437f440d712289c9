"""Rollouts to many devices at one broker: how long they take, what a failing stage leaves, and kills meanwhile.

    python reliability/fleet.py --keep                      writes benchmarks/results/fleet.json
    python reliability/fleet.py --devices 40 --services 4   a short form

Some devices are services with a camera of two frames a second, the others speak the protocol only, in one process; each
fetches the model by the broker. Three rollouts follow one another:

1. a model that all devices can use;
2. one that a fifth of the second stage refuses, services among them: all devices have to be back at the model before;
3. another good one, while the broker is killed (SIGKILL, without anything saved) in each of the three stages, and the
   command and a service once.

Every frame of the services is to be accounted for: none may be missing between two messages of the first two rollouts,
and none may have failed or be lost in an outbox in all of them. The exit status is 1 otherwise.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.result_file import write_json
from edgemeta import __version__
from edgemeta.model.file import load, save
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find
from rig.broker import Mosquitto
from rig.protocol_device import ProtocolDevice
from rig.service_manager import EDGEMETA, ManagedService
from rig.waiting import wait_until

STAGES = "1,10%,100%"
PROMISED_S = 300
KILLS = 3
LOST = ("failed", "outbox", "refused")
"""Reasons of dropped frames that a rollout or an outage might cause."""
BAD = "rotated"
"""The model that disagrees with the others."""


def write_models(folder: Path) -> dict[str, Path]:
    """One network under three names, and one whose labels are other ones."""
    network = load(find("resnet8-cifar10"))
    assert isinstance(network.task, Classification)
    labels = network.task.labels
    made = {}
    for name in ("start", "second", BAD, "third"):
        task = replace(network.task, labels=(*labels[1:], labels[0]) if name == BAD else labels)
        made[name] = folder / f"{name}.safetensors"
        save(replace(network, name=name, task=task), made[name])
    return made


class Observer:
    """What the services say: models, frames and counters by device."""

    def __init__(self, port: int) -> None:
        self.models: dict[str, str] = {}
        self.missing = Counter[str]()
        self.frames = Counter[str]()
        self._last: dict[str, dict[str, Any]] = {}
        self._lost: dict[tuple[str, str], int] = {}
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.1, 0.5)
        self._client.on_connect = self._on_connect
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _on_connect(self, client: paho.Client, *_: object) -> None:
        self._last.clear()  # what came meanwhile is at the device, not missing
        client.subscribe([("edgemeta/+/info", 1), ("edgemeta/+/+/frame", 1)])

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        device = message.topic.split("/")[1]
        content = json.loads(message.payload)
        if message.topic.endswith("/info"):
            self.models[device] = content["model"]["name"]
            return
        if content["historical"]:
            return
        self.frames[device] += 1
        before = self._last.get(device)
        if before is not None and before["boot"] == content["boot"]:
            gap = content["sequence"] - before["sequence"] - 1
            self.missing[device] += abs(gap - _accounted(content) + _accounted(before))
        self._last[device] = content
        self._lost[device, content["boot"]] = sum(content["dropped"][reason] for reason in LOST)

    @property
    def lost(self) -> int:
        """Frames that devices count as failed or lost."""
        return sum(self._lost.values())

    def close(self) -> None:
        """Disconnect."""
        self._client.disconnect()
        self._client.loop_stop()


def _accounted(frame: dict[str, Any]) -> int:
    return int(sum(frame["dropped"].values()) + frame["withheld"])


class Site:
    """A broker, services and devices that speak the protocol only."""

    def __init__(self, folder: Path, devices: int, services: int) -> None:
        self.folder, self.count = folder, devices
        names = [f"d{number:03}" for number in range(devices)]
        first, step = services // 2, max(1, (devices - services // 2) // max(1, services - services // 2))
        self.real = [*names[:first], *names[first + step - 1 :: step]][:services]
        self.second_stage = names[1 : -(-devices // 10)]
        self.failing = set(self.second_stage[::5])
        self.models = write_models(folder)
        self.broker = Mosquitto(folder)
        self.broker.start()
        self.observer = Observer(self.broker.port)
        self.services: dict[str, ManagedService] = {}
        for name in self.real:
            self.services[name] = self.start(name)
        self.protocol = [
            ProtocolDevice(name, self.broker.port, self._result(name)) for name in names if name not in self.real
        ]
        for name, service in self.services.items():
            service.ready()
            wait_until(partial(self._has_frames, name), f"frames of {name}", 120)

    def _has_frames(self, name: str) -> bool:
        return self.observer.frames[name] > 2

    def start(self, name: str) -> ManagedService:
        """Start a service; one that is to fail asks a new model to agree with the one before."""
        config = self.folder / f"{name}.yaml"
        swap = {"rollouts": "install", "shadow_frames": 2, "trial_frames": 2}
        keys = {
            "device": name,
            "model": str(self.models["start"]),
            "backend": {"name": "cpu", "options": {"threads": 1}},
            "cameras": {"front": {"source": "synthetic://", "fps": 2}},
            "swap": swap | ({"min_agreement": 1.0} if name in self.failing else {}),
            "stats": {"interval": 60},
            "data_folder": str(self.folder / "state"),
            "mqtt": {
                "host": "127.0.0.1",
                "port": self.broker.port,
                "retry": {"initial_delay": 0.2, "max_delay": 2.0},
            },
            "log": {"level": "warning"},
        }
        config.write_text(yaml.safe_dump(keys))
        return ManagedService(config, self.folder / f"{name}.log")

    def _result(self, name: str) -> Callable[[str], str]:
        return lambda model: "failed" if model == BAD and name in self.failing else "done"

    def having(self) -> Counter[str]:
        """Devices by the name of their model."""
        real = Counter(self.observer.models.get(name, "unknown") for name in self.real)
        return real + Counter(each.model["name"] for each in self.protocol)

    def rollout(self, model: str) -> "Command":
        """Start the command."""
        words = ["rollout", str(self.models[model]), "--stages", STAGES, "--broker", f"127.0.0.1:{self.broker.port}"]
        return Command([EDGEMETA, "fleet", *words], self.folder)

    def close(self) -> None:
        """End all of it."""
        for service in self.services.values():
            service.close()
        for each in self.protocol:
            each.close()
        self.observer.close()
        self.broker.stop()


class Command:
    """A running `edgemeta fleet`, and its lines so far."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.lines: list[str] = []
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"XDG_STATE_HOME": str(folder / "operator"), "PYTHONUNBUFFERED": "1"},
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())

    def wait_for(self, text: str) -> None:
        """Wait for a line that begins so."""
        wait_until(lambda: any(each.startswith(text) for each in self.lines), f"{text!r} in {self.lines[-5:]}", 300)

    def end(self) -> tuple[int, float]:
        """Wait for its end; return exit status and seconds."""
        code = self.process.wait(2 * PROMISED_S)
        self._reader.join()
        return code, round(time.monotonic() - self.began, 1)

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.process.kill()
        self.process.wait()
        self._reader.join()


def with_kills(site: Site) -> tuple[int, float]:
    """Roll out while the broker is killed in each stage, the command in the second and a service in the third."""
    began = time.monotonic()
    command = site.rollout("third")
    for stage in range(1, KILLS + 1):
        command.wait_for(f"stage {stage} of")
        site.broker.stop()
        if stage == 2:
            command.kill()
        if stage == 3:
            name = site.real[-1]
            site.services[name].kill()
            site.services[name].close()
            site.services[name] = site.start(name)
        site.broker.start()
        if stage == 2:
            wait_until(lambda: site.observer.models != {}, "devices to be back", 60)
            command = site.rollout("third")
    code, _ = command.end()
    return code, round(time.monotonic() - began, 1)


def measure(folder: Path, devices: int, services: int) -> dict[str, Any]:
    """Return what was measured; `wrong` has one sentence for each promise that was not kept."""
    site = Site(folder, devices, services)
    wrong: list[str] = []
    found: dict[str, Any] = {}

    def check(name: str, code: int, seconds: float, expected: int, model: str) -> None:
        wait_until(lambda: site.having()[model] == devices, f"all devices to have {model}, not {site.having()}", 120)
        found[name] = {"seconds": seconds, "exit_status": code, "models": dict(site.having())}
        if code != expected:
            wrong.append(f"{name}: exit status {code}, expected {expected}")
        if seconds > PROMISED_S:
            wrong.append(f"{name}: {seconds:g} s, expected at most {PROMISED_S}")

    try:
        check("plain", *site.rollout("second").end(), 0, "second")
        refused = site.rollout(BAD)
        check("a fifth of stage 2 fails", *refused.end(), 1, "second")
        found["halted_because"] = refused.lines[-1]
        reached = sum(BAD in json.dumps(each.orders) for each in site.protocol)
        frames, missing = sum(site.observer.frames.values()), sum(site.observer.missing.values())
        check("the broker killed 3 times", *with_kills(site), 0, "third")
        lost = site.observer.lost
        if missing or lost:
            wrong.append(f"{missing} frames are missing, {lost} failed or lost")
    finally:
        site.close()
    return {
        "devices": devices,
        "services": services,
        "stages": STAGES,
        "failing": sorted(site.failing),
        "protocol_devices_that_the_failing_rollout_reached": reached,
        **found,
        "frames": frames,
        "frames_missing": missing,
        "frames_failed_or_lost": lost,
        "wrong": wrong,
    }


def main() -> None:
    """Measure and print; --keep writes the result file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--services", type=int, default=20)
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = measure(Path(folder), given.devices, given.services)
    print(json.dumps(result, indent=2))
    if given.keep:
        write_json("fleet", "python reliability/fleet.py --keep", {"edgemeta": __version__, **result})
    sys.exit(bool(result["wrong"]))


if __name__ == "__main__":
    main()
