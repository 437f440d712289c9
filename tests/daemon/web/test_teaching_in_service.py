"""Teaching and using, asked of a service that runs as a process: keys that it trusts, and a kill in the middle."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import cv2
import pytest

from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.model.signature import make_key, sign, signature_of
from edgemeta.model.zoo import find
from rig.gate_camera import STATES, GateCamera, draw
from rig.waiting import wait_until
from tests.daemon.conftest import wait_for_line
from tests.daemon.web.conftest import TOKEN

FRONT = {"camera": "front"}


class Panel:
    """Asks the panel of a service at a port."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer's JSON; the sentence of a refusal."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with urlopen(Request(f"http://127.0.0.1:{self.port}{path}", data, headers), timeout=60) as answer:
                return json.load(answer)
        except HTTPError as error:
            return error.read().decode()

    @property
    def state(self) -> Any:
        return self.ask("/api/collection")

    def teach(self) -> Any:
        """Teach to the end and return what came of it."""
        assert self.ask("/api/teach", FRONT)["teaching"]["state"] == "running"
        wait_until(lambda: self.state["teaching"]["state"] != "running", "the network", 400)
        return self.state["teaching"]

    def use(self) -> Any:
        assert self.ask("/api/use", FRONT)["use"] is not None
        wait_until(lambda: self.state["use"]["state"] != "running", "the swap", 200)
        return self.state["use"]


@pytest.fixture
def collected(tmp_path: Path) -> PictureFolder:
    """Twenty pictures of each state, and one under the wrong label."""
    folder = PictureFolder(tmp_path / "state" / "collected-test" / "front", (0.0, 0.0, 1.0, 1.0))
    for state in STATES:
        (folder.folder / state).mkdir(parents=True)
        for number in range(20):
            path = folder.folder / state / f"20261122T12{number:02d}00.000Z-front.png"
            cv2.imwrite(str(path), draw(STATES[0] if number == 9 else state, 3 * number))
    return folder


@pytest.fixture
def start(
    write_config: Callable[..., Path], run_daemon: Any, free_port: Callable[[], int], tmp_path: Path
) -> Callable[..., tuple[Any, Panel]]:
    """Starts the service with the drawn gate as its camera, and returns its process and panel."""

    def started(**keys: Any) -> tuple[Any, Panel]:
        port = free_port()
        source = tmp_path / "gate.png"
        cv2.imwrite(str(source), draw(STATES[1], 1))
        config = write_config(
            **{
                "model": "resnet8-cifar10",
                "backend": {"name": "auto"},
                "cameras": {"front": GateCamera(source).keys},
                "web": {"enabled": True, "port": port, "token": TOKEN},
                "swap": {"shadow_frames": 5, "trial_frames": 5},
                "mqtt": {"host": "127.0.0.1", "port": free_port()},
            }
            | keys
        )
        daemon = run_daemon(config)
        wait_for_line(daemon, "page at http://")
        return daemon, Panel(port)

    return started


@pytest.mark.gate("25 s: a service, and a network is taught")
def test_the_confusing_picture_is_shown_and_a_model_that_is_not_signed_is_refused(
    start: Callable[..., tuple[Any, Panel]], collected: PictureFolder, tmp_path: Path
) -> None:
    """A device that trusts keys runs what is signed by them only; the panel says so and the old model stays."""
    pytest.importorskip("cryptography", reason="no cryptography (extra `signature`)")
    public = make_key(tmp_path / "maker.pem")
    shipped = tmp_path / "shipped.safetensors"
    shipped.write_bytes(find("resnet8-cifar10").read_bytes())
    signature_of(shipped).write_bytes(sign(shipped.read_bytes(), tmp_path / "maker.pem"))
    _, panel = start(model=str(shipped), trust={"public_key_files": [str(public)]})
    before = panel.ask("/api/state")["cameras"]["front"]["model"]
    taught = panel.teach()
    assert (taught["state"], taught["reason"]) == ("done", None)
    assert taught["pictures"] == 40
    wrong = {picture.id for picture in collected.pictures(STATES[1]) if "T120900" in picture.name}
    assert wrong <= {each["id"] for each in taught["confusing"]}
    used = panel.use()
    assert used["state"] == "failed"
    assert ".sig" in used["message"]
    assert panel.ask("/api/state")["cameras"]["front"]["model"] == before
    assert len(list((tmp_path / "state" / "taught-test").glob("*.safetensors"))) == 1


@pytest.mark.gate("60 s: a service is killed while a network is taught, and started again")
def test_a_service_killed_in_the_middle_loses_no_picture_and_leaves_no_process(
    start: Callable[..., tuple[Any, Panel]], collected: PictureFolder, tmp_path: Path
) -> None:
    daemon, panel = start()
    pictures = {picture.id for found in collected.all().values() for picture in found}
    assert panel.ask("/api/collect", FRONT | {"label": STATES[1], "hold": True, "first": True})["pictures"] >= 40
    panel.ask("/api/teach", FRONT)
    assert "a network is being taught by these pictures" in panel.ask(
        "/api/rename", FRONT | {"label": STATES[1], "name": "x"}
    )
    assert "a network is being taught by these pictures" in panel.ask(
        "/api/discard", FRONT | {"pictures": [next(iter(pictures))]}
    )
    (child,) = children(daemon.process.pid)
    wait_until(lambda: panel.state["cameras"]["front"]["kept"] >= 1, "a picture")
    daemon.process.kill()
    daemon.process.wait()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), "the end of the command")
    _, panel = start()
    found = {picture.id for found in collected.all().values() for picture in found}
    assert pictures < found
    assert panel.state["pictures"] == len(found)
    assert panel.state["teaching"] is None
    assert panel.teach()["state"] == "done"
    used = panel.use()
    assert (used["state"], used["model"]) == ("done", "front-1.safetensors")
    line = f"cameras.front.model: {tmp_path / 'state' / 'taught-test' / 'front-1.safetensors'}@sha256:"
    assert used["line"].startswith(line)
    state = panel.ask("/api/state")["cameras"]["front"]
    assert state["model"]["name"] == "front-1"
    wait_until(
        lambda: (
            {each["label"] for each in panel.ask("/api/state")["cameras"]["front"]["frame"]["labels"]} == set(STATES)
        ),
        "the new labels",
    )


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    deadline = time.monotonic() + 60
    while True:
        found = []
        for task in Path(f"/proc/{pid}/task").iterdir():
            try:
                found += [int(child) for child in (task / "children").read_text("ascii").split()]
            except OSError:  # a thread that has ended meanwhile
                continue
        if found:
            return found
        assert time.monotonic() < deadline, "the service has started no process"
        time.sleep(0.05)
