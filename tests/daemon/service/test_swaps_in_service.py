"""Swaps of a real service with a real broker: by file, by signal, by command; signed models; nothing lost."""

import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from edgemeta.model.file import save
from edgemeta.model.self_test import with_self_test
from edgemeta.model.signature import make_key, sign, signature_of
from rig.broker import Mosquitto
from rig.waiting import wait_until
from tests.daemon.conftest import Daemon, Subscriber, colour_model

Start = Callable[..., tuple[Daemon, Subscriber]]


def name_of(frame: Any) -> str:
    name: str = frame.json["model"]["name"]
    return name


@pytest.fixture
def another(tmp_path: Path) -> Path:
    """A second model's file."""
    path = tmp_path / "models" / "another.safetensors"
    path.parent.mkdir()
    save(with_self_test(replace(colour_model(), name="another")), path)
    return path


@pytest.fixture
def start(broker: Mosquitto, subscriber: Subscriber, write_config: Any, run_daemon: Any) -> Start:
    """Starts a service, waits for its first frame."""

    def begin(**keys: Any) -> tuple[Daemon, Subscriber]:
        daemon = run_daemon(write_config(**config_of(broker, **keys)))
        subscriber.wait("front/frame")
        return daemon, subscriber

    return begin


def config_of(broker: Mosquitto, **keys: Any) -> dict[str, Any]:
    return {
        "mqtt": {"host": "127.0.0.1", "port": broker.port},
        "swap": {"shadow_frames": 5, "trial_frames": 5, "model_folder": "models"},
        "cameras": {"front": {"source": "synthetic://", "fps": 30}},
    } | keys


def assert_no_frame_is_lost(subscriber: Subscriber) -> None:
    """No network failed on one. A machine at its limits may supersede some, and then they are counted as that."""
    frames = [message.json for message in subscriber.on("front/frame")]
    for before, after in pairwise(frames):
        missing = after["sequence"] - before["sequence"] - 1
        assert missing == after["dropped"]["superseded"] - before["dropped"]["superseded"]
    assert frames[-1]["dropped"]["failed"] == 0


def test_a_changed_line_of_the_config_is_enough(
    start: Start, broker: Mosquitto, write_config: Any, another: Path
) -> None:
    daemon, subscriber = start()
    write_config(**config_of(broker, model=str(another)))
    message = subscriber.wait("test/swap", 2)[1].json
    assert (message["result"], message["trigger"], message["reason"]) == ("swapped", "file", None)
    assert message["models"][0]["shadow"]["frames"] == 5
    subscriber.wait_for("front/frame", lambda frame: name_of(frame) == "another")
    assert subscriber.on("info")[-1].json["models"]["front"]["name"] == "another"
    assert_no_frame_is_lost(subscriber)
    assert daemon.stop() == 0
    names = [name_of(frame) for frame in subscriber.on("front/frame")]
    assert names == sorted(names, reverse=True), "colour, then another, never back"
    assert "swap of models: colour (" in daemon.said
    assert "model swapped: colour (" in daemon.said
    assert "5 frames in the shadow run: 100% got the same label" in daemon.said


def test_by_command_and_back_by_a_reload(start: Start, another: Path) -> None:
    daemon, subscriber = start()
    subscriber.publish("edgemeta/test/cmd/model", b'{"model": "another", "transaction": "1"}')
    answer = subscriber.wait("resp/model")[0].json
    assert (answer["ok"], answer["transaction"]) == (True, "1"), answer
    assert subscriber.wait("test/swap", 2)[1].json["trigger"] == "command"
    subscriber.wait_for("front/frame", lambda frame: name_of(frame) == "another")
    subscriber.publish("edgemeta/test/cmd/model", b'{"model": "nothing"}')
    assert "found model 'nothing'" in subscriber.wait("resp/model", 2)[1].json["outcome"]
    daemon.process.send_signal(signal.SIGHUP)
    assert subscriber.wait("test/swap", 3)[2].json["models"][0]["after"]["name"] == "colour"
    subscriber.publish("edgemeta/test/cmd/reload", b"")
    assert subscriber.wait("resp/reload")[0].json["outcome"] == "config reloaded: nothing changed"
    assert_no_frame_is_lost(subscriber)
    assert daemon.stop() == 0


@pytest.mark.gate("3 s: the service is started three times")
def test_only_signed_models_run_where_keys_are_trusted(
    start: Start, broker: Mosquitto, write_config: Any, run_daemon: Any, model_file: Path, another: Path, tmp_path: Path
) -> None:
    private = tmp_path / "maker.pem"
    keys = {
        "trust": {"public_key_files": [str(make_key(private))]},
        "swap": {"shadow_frames": 2, "trial_frames": 2},
        "watch_files": False,
    }
    unsigned = run_daemon(write_config(**config_of(broker, **keys)))
    assert unsigned.process.wait(60) == 78
    assert "colour.safetensors.sig: cannot be read" in unsigned.said
    signature_of(model_file).write_bytes(sign(model_file.read_bytes(), private))
    daemon, subscriber = start(**keys)

    def swap() -> dict[str, Any]:
        before = len(subscriber.on("test/swap"))
        daemon.process.send_signal(signal.SIGHUP)
        return subscriber.wait("test/swap", before + 1)[before].json

    write_config(**config_of(broker, **keys, model=str(another)))
    message = swap()
    assert message["result"] == "refused"
    assert "another.safetensors.sig: cannot be read" in message["reason"]
    shutil.copy(signature_of(model_file), signature_of(another))
    assert "not a signature of this file by a trusted key" in swap()["reason"]
    signature_of(another).write_bytes(sign(another.read_bytes(), private))
    assert swap()["result"] == "swapped"
    assert daemon.stop() == 0


@pytest.mark.gate("5 s: the folder is watched until files are at rest")
def test_a_half_written_model_is_refused_and_the_whole_one_taken(start: Start, model_file: Path, another: Path) -> None:
    daemon, subscriber = start()
    content = another.read_bytes()
    model_file.write_bytes(content[: len(content) // 2])
    message = subscriber.wait("test/swap", 2)[1].json
    assert message["result"] == "refused"
    assert "is not a complete safetensors file" in message["reason"]
    model_file.write_bytes(content)
    assert subscriber.wait("test/swap", 3)[2].json["result"] == "swapped"
    subscriber.wait_for("front/frame", lambda frame: name_of(frame) == "another")
    assert_no_frame_is_lost(subscriber)
    assert daemon.stop() == 0


def test_commands_can_be_disabled(start: Start, broker: Mosquitto) -> None:
    keys = {"mqtt": config_of(broker)["mqtt"] | {"commands": False}}
    daemon, subscriber = start(**keys)
    subscriber.publish("edgemeta/test/cmd/reload", b"")
    subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 20)
    assert subscriber.on("resp/reload") == []
    assert daemon.stop() == 0


def test_the_stop_does_not_wait_for_a_swap(start: Start, broker: Mosquitto, write_config: Any, another: Path) -> None:
    swap = {"shadow_frames": 10_000, "trial_frames": 1}
    daemon, _ = start(swap=swap)
    write_config(**config_of(broker, swap=swap, model=str(another)))
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "swap of models: " in daemon.said, "the swap to begin")
    assert daemon.stop(timeout=60.0) == 0


def test_another_backend_is_swapped_in_like_another_model(start: Start, broker: Mosquitto, write_config: Any) -> None:
    daemon, subscriber = start()
    write_config(**config_of(broker, backend={"name": "cpu", "options": {"threads": 1}}, top_k=1))
    daemon.process.send_signal(signal.SIGHUP)
    message = subscriber.wait("test/swap", 2)[1].json
    assert message["result"] == "swapped"
    assert message["models"][0]["before"] == message["models"][0]["after"]
    assert message["models"][0]["shadow"]["same_label"] == 1.0, "every backend gives the same integers"
    frame = subscriber.wait_for("front/frame", lambda frame: frame.json["backend"] == "cpu")
    assert len(frame.json["labels"]) == 1
    assert_no_frame_is_lost(subscriber)
    assert daemon.stop() == 0
