"""`edgemeta fleet list` beside a real broker and a real service."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from edgemeta.cli.main import edgemeta
from rig.broker import Mosquitto
from rig.waiting import free_port, wait_until

CLI = str(Path(sys.executable).with_name("edgemeta"))


def run(*words: str) -> Result:
    return CliRunner().invoke(edgemeta, ["fleet", "list", *words])


def publish(broker: Mosquitto, topic: str, payload: str) -> None:
    import paho.mqtt.publish

    paho.mqtt.publish.single(topic, payload, qos=1, retain=True, hostname="127.0.0.1", port=broker.port)


def test_devices_that_retain_their_messages_are_listed(broker: Mosquitto) -> None:
    model = {"name": "yard", "sha256": "ab" * 32}
    for name, word in (("yard-1", "online"), ("yard-2", "offline"), ("hall", "online")):
        publish(broker, f"edgemeta/{name}/availability", word)
        publish(broker, f"edgemeta/{name}/info", json.dumps({"version": "1.0", "model": model, "cameras": ["front"]}))
    failed = {"status": "failed", "reason": "no route to host", "problem": True}
    publish(broker, "edgemeta/yard-2/front/status", json.dumps(failed))
    address = f"127.0.0.1:{broker.port}"
    found = run("yard-*", "--broker", address, "--seconds", "1.5")
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[1:] == [
        "yard-1  online   1.0      yard abababab  0/1      -         -",
        "yard-2  offline  1.0      yard abababab  0/1      -         -",
        "  ! front: failed, no route to host",
        "2 devices, 1 offline, 1 with problems",
    ]
    assert all(len(line) <= 80 for line in found.stdout.splitlines())
    devices = json.loads(run("--broker", address, "--seconds", "1.5", "--json").stdout)["devices"]
    assert [(each["device"], each["state"]) for each in devices] == [
        ("hall", "online"),
        ("yard-1", "online"),
        ("yard-2", "offline"),
    ]
    assert run("shed*", "--broker", address, "--seconds", "1.5").stdout == "no device matches, of 3\n"
    other = run("--broker", address, "--base", "elsewhere", "--seconds", "0.3").stdout
    assert other == "no device has published below this base topic\n"


def test_a_service_is_found_by_its_own_config(broker: Mosquitto, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    keys = {
        "device": "test",
        "model": "resnet8-cifar10",
        "cameras": {"front": {"source": "synthetic://"}},
        "mqtt": {"host": "127.0.0.1", "port": broker.port, "base_topic": "far/away"},
        "stats": {"interval": 1},
        "data_folder": str(tmp_path / "state"),
    }
    config.write_text(yaml.safe_dump(keys))
    service = subprocess.Popen([CLI, "run", str(config)], stderr=subprocess.DEVNULL)
    try:

        def listed() -> bool:
            found = json.loads(run("--config", str(config), "--seconds", "1.5", "--json").stdout)["devices"]
            return bool(found) and found[0]["frames_per_s"] is not None and found[0]["seen"] is not None

        wait_until(listed, "the service to be listed with its rate")
        table = run("--config", str(config), "--seconds", "1.5").stdout
        assert "test    online" in table
        assert "resnet8-cifar10" in table
        assert "1/1" in table
    finally:
        service.terminate()
        service.wait(60)


def test_a_broker_that_is_not_there_and_options_that_do_not_fit_are_one_sentence() -> None:
    port = free_port()
    done = subprocess.run(
        [CLI, "fleet", "list", "--broker", f"127.0.0.1:{port}"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == f"edgemeta: broker 127.0.0.1:{port} cannot be reached: Connection refused\n"
    for words, expected in (
        ((), "expected one of --config, --broker"),
        (("--broker", "a", "--config", "b"), "expected one of --config, --broker"),
        (("--broker", "a", "--watch", "--json"), "expected only one of --watch, --json"),
    ):
        found = run(*words)
        assert (found.exit_code, expected in found.output) == (2, True)


def test_what_may_not_be_read_is_not_there(tmp_path: Path) -> None:
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    (tmp_path / "acl").write_text("topic read edgemeta/+/info\n")
    broker = Mosquitto(tmp_path, ("allow_anonymous true", f"acl_file {tmp_path / 'acl'}"))
    broker.start()
    try:
        found = run("--broker", f"127.0.0.1:{broker.port}", "--seconds", "0.5")
    finally:
        broker.stop()
    # mosquitto grants such subscriptions, and sends nothing
    assert found.stdout == "no device has published below this base topic\n"
