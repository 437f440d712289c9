"""A start with an unusable model in the config: the last good one is used and reported."""

import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from edgemeta.model.file import save
from edgemeta.model.self_test import with_self_test
from edgemeta.model.signature import make_key, sign, signature_of
from rig.waiting import wait_until
from tests.daemon.conftest import colour_model, wait_for_line
from tests.daemon.service.conftest import ServiceOf


def damage(path: Path) -> None:
    """Flip one bit of the last weight."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def write_model(path: Path, name: str, self_test: bool = True) -> Path:
    """Write a model file, optionally with a wrong self-test."""
    model = with_self_test(replace(colour_model(), name=name))
    assert model.self_test is not None
    if not self_test:
        model = replace(model, self_test=replace(model.self_test, expected=model.self_test.expected[::-1].copy()))
    save(model, path)
    return path


@pytest.mark.gate("4 s: several starts of the service")
def test_the_last_good_model_is_used_and_reported_everywhere(
    service_of: ServiceOf, model_file: Path, free_port: Any
) -> None:
    port = free_port()
    keys = {"web": {"enabled": True, "port": port}}
    service = service_of(**keys)
    assert service.swap("start")["result"] == "settled"
    good = service.info()["model"]["sha256"]
    service.stop()
    damage(model_file)
    service = service_of(**keys)
    message = service.swap("start")
    assert message["result"] == "fallback"
    assert f"model: found {model_file}: is damaged: its bytes have the checksum" in message["reason"]
    info = service.info()
    assert info["model"]["sha256"] == good
    assert info["model_refused"] == message["reason"]
    wait_for_line(service.daemon, "the last good models are in use instead: ")
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        assert "\nedgemeta_model_refused 1.0" in answer.read().decode()

    def is_ready() -> bool:
        with suppress(HTTPError), urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
            return f"model refused, another one is in use: {message['reason']}" in answer.read().decode()
        return False

    wait_until(is_ready, "readiness, with the reason")
    service.check(exit_code=78, said="is damaged")


@pytest.mark.gate("the service is started two to four times")
def test_a_corrected_model_ends_the_problem(service_of: ServiceOf, model_file: Path) -> None:
    service = service_of()
    service.stop()
    content = model_file.read_bytes()
    damage(model_file)
    service = service_of()
    model_file.write_bytes(content)
    service.reload()
    assert service.swap("signal")["result"] == "settled"
    service.wait_for_info(lambda info: info["model_refused"] is None)
    write_model(model_file, "next")
    service.reload()
    service.wait_for_info(lambda info: info["model"]["name"] == "next")
    service.stop()
    damage(model_file)
    assert service_of().info()["model"]["name"] == "next", "remembered since"


@pytest.mark.gate("4 s: the service is started five times")
def test_without_a_last_good_model_or_with_the_fallback_disabled_it_ends_with_78(
    service_of: ServiceOf, model_file: Path
) -> None:
    damage(model_file)
    service_of(expected_exit=78, said="model: found ")
    write_model(model_file, "good")
    service_of().stop()
    damage(model_file)
    service_of(expected_exit=78, said="top_k: found 0", top_k=0)
    service_of(expected_exit=78, said="is damaged", swap={"fallback_at_start": False})
    assert service_of().info()["model"]["name"] == "good"


@pytest.mark.gate("the service is started two to four times")
@pytest.mark.parametrize("fault", ["self-test", "gone", "no model", "digest"])
def test_any_reason_will_do(service_of: ServiceOf, model_file: Path, tmp_path: Path, fault: str) -> None:
    service_of().stop()
    name = {"gone": "/nowhere/model", "digest": f"{model_file}@sha256:{'0' * 64}"}.get(fault, str(tmp_path / "bad"))
    if fault == "self-test":
        write_model(tmp_path / "bad", "bad", self_test=False)
    elif fault == "no model":
        (tmp_path / "bad").write_text("no model")
    service = service_of(model=name)
    assert service.swap("start")["result"] == "fallback"
    assert service.info()["model"]["name"] == "colour"


@pytest.mark.gate("the service is started two to four times")
def test_one_camera_s_model_falls_back_and_the_other_s_is_taken(
    service_of: ServiceOf, model_file: Path, tmp_path: Path
) -> None:
    own = write_model(tmp_path / "own.safetensors", "own")
    front = {"source": "synthetic://", "fps": 30}
    cameras = {"front": front, "back": front | {"model": str(own)}}
    service_of(cameras=cameras).stop()
    damage(own)
    write_model(model_file, "newer")
    service = service_of(cameras=cameras)
    assert {camera: model["name"] for camera, model in service.info()["models"].items()} == {
        "front": "newer",
        "back": "own",
    }
    assert "cameras.back.model: found " in service.info()["model_refused"]


@pytest.mark.gate("the service is started two to four times")
def test_only_a_signed_copy_is_used_where_keys_are_trusted(
    service_of: ServiceOf, model_file: Path, tmp_path: Path
) -> None:
    private = tmp_path / "maker.pem"
    trust = {"trust": {"public_key_files": [str(make_key(private))]}}
    service_of().stop()
    damage(model_file)
    service_of(**trust, expected_exit=78, said="the last good model cannot be used either")
    write_model(model_file, "colour")
    signature_of(model_file).write_bytes(sign(model_file.read_bytes(), private))
    service_of(**trust).stop()
    damage(model_file)
    assert service_of(**trust).swap("start")["result"] == "fallback"


@pytest.mark.gate("the service is started two to four times")
def test_a_model_that_failed_on_live_frames_is_not_used_at_the_next_start(
    service_of: ServiceOf, model_file: Path
) -> None:
    service = service_of(swap={"min_agreement": 1.0, "shadow_frames": 5, "trial_frames": 5}, watch_files=False)
    save(replace(colour_model(), task=replace(colour_model().task, labels=("blue", "green", "red"))), model_file)
    service.reload()
    message = service.swap("signal")
    assert message["result"] == "refused"
    assert "0% of 5 frames got the same label" in message["reason"]
    wait_until(lambda: "0% of 5 frames" in service.remembered, "the refusal to be written")
    service.stop()
    service = service_of(swap={"shadow_frames": 0, "trial_frames": 2}, watch_files=False)
    message = service.swap("start")
    assert message["result"] == "fallback"
    assert "0% of 5 frames got the same label" in message["reason"]
    service.reload()
    assert service.swap("signal")["result"] == "swapped", "a reload tries it again"
    service.stop()
    assert (
        service_of(swap={"shadow_frames": 0, "trial_frames": 2}, watch_files=False).swap("start")["result"] == "settled"
    )


def test_a_state_folder_that_cannot_be_written_is_reported_once_and_stops_nothing(
    service_of: ServiceOf, model_file: Path, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "models-test").write_text("in the way")
    service = service_of()
    wait_for_line(service.daemon, "no last good model is kept for the next start")
    for name in ("one", "two"):
        write_model(model_file, name)
        service.reload()
        service.wait_for_info(lambda info, name=name: info["model"]["name"] == name)
    service.stop()
    assert service.daemon.said.count("no last good model is kept for the next start") == 1


@pytest.mark.gate("the service is started two to four times")
def test_a_saved_file_that_was_refused_and_corrected_is_settled(service_of: ServiceOf, model_file: Path) -> None:
    """Without a reload: the file watcher detects both."""
    service = service_of(watch_files=True)
    content = model_file.read_bytes()
    damage(model_file)
    assert service.swap("file")["result"] == "refused"
    service.wait_for_info(lambda info: info["model_refused"] is not None)
    model_file.write_bytes(content)
    results = [message.json["result"] for message in service.subscriber.wait("test/swap", 3)]
    assert results == ["settled", "refused", "settled"]
    service.wait_for_info(lambda info: info["model_refused"] is None)


@pytest.mark.gate("the service is started two to four times")
def test_a_command_that_fails_does_not_cancel_the_swap_of_the_config(service_of: ServiceOf, model_file: Path) -> None:
    service = service_of(swap={"shadow_frames": 100, "trial_frames": 2}, watch_files=False)
    write_model(model_file, "next")
    service.daemon.process.send_signal(signal.SIGHUP)
    wait_for_line(service.daemon, "swap of models: ")
    service.subscriber.publish("edgemeta/test/cmd/model", b'{"model": "nothing"}')
    assert not service.subscriber.wait("resp/model")[0].json["ok"]
    service.wait_for_info(lambda info: info["model"]["name"] == "next")
    results = [message.json["result"] for message in service.subscriber.wait("test/swap", 3)]
    assert results == ["settled", "cancelled", "swapped"]
