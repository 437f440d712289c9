"""Rollouts beside a real broker: stages, a failing stage, kills of the command and the broker, devices that are off."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemeta.model.zoo import find
from rig.broker import Mosquitto
from rig.protocol_device import ProtocolDevice
from rig.waiting import wait_until

pytestmark = pytest.mark.gate("5 to 15 s each: commands that listen for 3 s, and end after the stages")

MODEL = "resnet8-cifar10"
Start = Callable[..., "subprocess.Popen[str]"]
Device = Callable[..., ProtocolDevice]


def at(broker: Mosquitto) -> tuple[str, ...]:
    return ("--broker", f"127.0.0.1:{broker.port}")


def rollout(fleet: Start, broker: Mosquitto, *words: str) -> "subprocess.Popen[str]":
    return fleet("rollout", MODEL, *at(broker), "--settle", "0", *words)


def end(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, complaints = process.communicate(timeout=120)
    return process.returncode, out, complaints


def listed(fleet: Start, broker: Mosquitto) -> dict[str, dict[str, Any]]:
    code, out, complaint = end(fleet("list", *at(broker), "--seconds", "1", "--json"))
    assert code == 0, complaint
    return {each["device"]: each for each in json.loads(out)["devices"]}


def test_a_model_reaches_all_devices_stage_by_stage(fleet: Start, broker: Mosquitto, device: Device) -> None:
    made = [device(f"yard-{number}", broker) for number in range(5)]
    device("hall", broker)
    device("old", broker, accepts=False)
    planned = json.loads(end(rollout(fleet, broker, "--to", "*-*", "--stages", "1,50%,100%", "--dry-run", "--json"))[1])
    assert planned["stages"] == [["yard-0"], ["yard-1", "yard-2"], ["yard-3", "yard-4"]]
    assert all(not each.orders for each in made)
    code, out, complaint = end(rollout(fleet, broker, "--to", "*-*", "--stages", "1,50%,100%"))
    assert (code, complaint) == (0, "")
    assert [line for line in out.splitlines() if line.startswith("stage")] == [
        "stage 1 of 3: 1 devices",
        "stage 2 of 3: 2 devices",
        "stage 3 of 3: 2 devices",
    ]
    assert out.splitlines()[-1] == "5 devices have resnet8-cifar10"
    assert [len(each.orders) for each in made] == [1] * 5
    order = made[0].orders[0]
    assert order["model"]["size"] == find(MODEL).stat().st_size
    assert (order["device"], order["model"]["address"]) == ("yard-0", None)
    found = listed(fleet, broker)
    assert (found["yard-3"]["model"], found["hall"]["model"], found["yard-3"]["rollout"]["state"]) == (
        MODEL,
        "first",
        "done",
    )
    assert retained(broker, "edgemeta/.models/#") == []
    code, out, complaint = end(fleet("undo", *at(broker)))
    assert (code, out.splitlines()[-1]) == (0, "undone: undone by command"), complaint
    assert {name: each["model"] for name, each in listed(fleet, broker).items()} == dict.fromkeys(found, "first")
    code, _, complaint = end(fleet("undo", *at(broker)))
    assert (code, complaint.endswith("is undone already\n")) == (1, True)


def retained(broker: Mosquitto, topic: str) -> list[str]:
    done = subprocess.run(
        ["mosquitto_sub", "-p", str(broker.port), "-t", topic, "-W", "1", "--retained-only", "-F", "%t %l"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()


def test_a_stage_that_fails_halts_the_rollout_and_all_go_back(fleet: Start, broker: Mosquitto, device: Device) -> None:
    made = [
        device(
            f"d{number}", broker, lambda model, number=number: "failed" if number == 2 and model == MODEL else "done"
        )
        for number in range(6)
    ]
    code, out, complaint = end(rollout(fleet, broker, "--stages", "1,50%,100%"))
    assert (code, complaint) == (1, "")
    assert out.splitlines()[-1] == "undone: 1 of 2 devices of stage 2 failed, such as d2: planted"
    assert [[(each["model"] or {}).get("name") for each in one.orders] for one in made] == [
        *[[MODEL, None]] * 3,
        *[[]] * 3,
    ]
    assert {each["model"] for each in listed(fleet, broker).values()} == {"first"}
    code, _, complaint = end(rollout(fleet, broker, "--stages", "100%", "--most-failed", "1"))
    assert (code, complaint) == (0, ""), "another rollout tries it again"
    assert sum(each["model"] == MODEL for each in listed(fleet, broker).values()) == 5


def test_it_goes_on_after_kills_of_the_command_and_the_broker(
    fleet: Start, broker: Mosquitto, device: Device, tmp_path: Path
) -> None:
    held = {"d1": True}
    made = [
        device(f"d{number}", broker, lambda _, number=number: None if number == 1 and held["d1"] else "done")
        for number in range(4)
    ]
    first = rollout(fleet, broker, "--stages", "1,2,100%")
    wait_until(lambda: bool(made[1].orders), "the order of the second stage", 90)
    assert "another command carries out this rollout" in end(rollout(fleet, broker))[2]
    first.kill()
    end(first)
    broker.stop()  # it has saved nothing
    broker.delete_state()
    broker.start()
    wait_until(lambda: "d3" in listed(fleet, broker), "the devices to be back", 90)
    other = end(fleet("rollout", "resnet8-cifar10-paper", *at(broker)))[2]
    assert "has not ended: go on with that file, or: edgemeta fleet undo" in other
    second = rollout(fleet, broker)
    wait_until(lambda: len(made[1].orders) > 1, "the order again", 90)
    broker.stop()
    broker.delete_state()
    held["d1"] = False
    broker.start()
    code, out, complaint = end(second)
    assert code == 0, complaint
    assert "going on with the rollout" in complaint
    assert "trying again" in complaint
    assert out.splitlines()[-1] == "4 devices have resnet8-cifar10"
    assert {each["model"] for each in listed(fleet, broker).values()} == {MODEL}


def test_a_device_that_is_off_follows_when_it_returns(fleet: Start, broker: Mosquitto, device: Device) -> None:
    device("a", broker)
    device("b", broker).close()
    code, out, complaint = end(rollout(fleet, broker))
    assert code == 0, complaint
    size = find(MODEL).stat().st_size
    kept = f"the broker keeps {size:,} bytes for them; the first rollout after that removes them"
    assert out.splitlines()[-3:] == ["1 devices have resnet8-cifar10", "1 follow when they return: b", kept]
    parts = retained(broker, "edgemeta/.models/#")
    assert len(parts) == -(-size // 49_152)
    other = ("rollout", "resnet8-cifar10-paper", *at(broker), "--settle", "0", "--to", "a")
    assert end(fleet(*other))[0] == 0
    assert retained(broker, "edgemeta/.models/#") == parts, "b has still to come for them"
    code, out, _ = end(fleet("list", *at(broker), "--seconds", "0.5"))
    assert "not received yet" in out
    device("b", broker)
    wait_until(lambda: listed(fleet, broker)["b"]["model"] == MODEL, "the device to follow", 90)
    assert end(fleet(*other))[0] == 0
    assert retained(broker, "edgemeta/.models/#") == []


def test_a_device_that_has_lost_its_former_model_gets_it_again_when_it_goes_back(
    fleet: Start, broker: Mosquitto, device: Device
) -> None:
    made = device("a", broker)
    assert end(rollout(fleet, broker))[0] == 0
    assert end(fleet("rollout", "resnet8-cifar10-paper", *at(broker), "--settle", "0"))[0] == 0
    made.lose_files()
    code, out, complaint = end(fleet("undo", *at(broker), "--json"))
    assert code == 0, complaint
    assert json.loads(out)["devices"]["a"]["model"] == MODEL
    assert retained(broker, "edgemeta/.models/#") == []


def test_values_reach_the_devices_that_let_them_be_set_beside_their_model(
    fleet: Start, broker: Mosquitto, device: Device
) -> None:
    made = [device(f"d{number}", broker, keys=["log", "state.enter_score"]) for number in range(3)]
    device("own", broker, keys=["log"])
    assert end(rollout(fleet, broker, "--to", "d*"))[0] == 0
    words = ("state.enter_score=0.75", "log.level=debug", *at(broker), "--settle", "0")
    planned = end(fleet("set", *words, "--dry-run"))[1]
    assert planned.splitlines()[0] == 'state.enter_score=0.75, log.level="debug"'
    code, out, complaint = end(fleet("set", *words))
    assert code == 0, complaint
    assert complaint.strip().endswith(
        "1 devices that match do not let these keys be set (`swap.rollout_keys`), such as own"
    )
    assert out.splitlines()[-1] == '3 devices have state.enter_score=0.75, log.level="debug"'
    found = listed(fleet, broker)
    assert [found[f"d{number}"]["rollout"]["values"] for number in range(3)] == [
        {"state.enter_score": 0.75, "log.level": "debug"}
    ] * 3
    assert (found["own"]["rollout"]["values"], len(retained(broker, "edgemeta/own/cmd/rollout"))) == ({}, 0)
    assert made[0].orders[-1]["model"] == made[0].orders[0]["model"], "the model stays"
    assert "values" not in made[0].orders[0], "devices of earlier versions know none"
    assert '  = state.enter_score=0.75, log.level="debug"' in end(fleet("list", *at(broker)))[1].splitlines()
    assert end(fleet("set", "--unset", "log.level", *at(broker), "--to", "d*", "--settle", "0"))[0] == 0
    assert made[1].values == {"state.enter_score": 0.75}
    assert end(rollout(fleet, broker, "--to", "d*"))[0] == 0
    assert made[1].values == {"state.enter_score": 0.75}, "values stay when a model comes"
    assert end(fleet("undo", *at(broker)))[0] == 0
    assert (made[1].values, made[1].model["name"]) == ({"state.enter_score": 0.75}, MODEL)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("state.enter_score",), "found 'state.enter_score', expected KEY=VALUE with a dotted key"),
        (("a..b=1",), "found 'a..b=1', expected KEY=VALUE"),
        (("log.level=[",), "found 'log.level=[', expected KEY=VALUE"),
        (("mqtt.host=x",), "no device takes orders, which needs `swap.rollout_keys` with mqtt.host"),
    ],
)
def test_values_that_cannot_be_ordered_are_one_sentence(
    fleet: Start, broker: Mosquitto, device: Device, words: tuple[str, ...], expected: str
) -> None:
    device("a", broker, keys=["state"])
    code, _, complaint = end(fleet("set", *words, *at(broker)))
    assert (code, expected in complaint.splitlines()[-1]) == (1, True), complaint


def test_a_device_without_a_result_has_failed_in_time(fleet: Start, broker: Mosquitto, device: Device) -> None:
    device("a", broker, lambda model: None if model == MODEL else "done")
    code, out, _ = end(rollout(fleet, broker, "--timeout", "1"))
    assert (code, out.splitlines()[-1]) == (
        1,
        "undone: 1 of 1 devices of stage 1 failed, such as a: no result within 1 s",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--stages", "10,5"), "--stages 10,5: found '5' after more, expected stages that grow"),
        (("--stages", "all"), "--stages all: found 'all', expected stages such as 1,10%,100%"),
        (("--url", "ftp://files/x"), "--url ftp://files/x: expected an address that begins with http:// or https://"),
        (("--to", "none*"), "--to none*: no device takes orders, which needs `swap.rollouts: install`"),
    ],
)
def test_what_cannot_be_is_one_sentence(
    fleet: Start, broker: Mosquitto, device: Device, words: tuple[str, ...], expected: str
) -> None:
    for number in range(12):
        device(f"d{number}", broker)
    code, _, complaint = end(rollout(fleet, broker, *words))
    assert (code, complaint) == (1, f"edgemeta: {expected}\n")


def test_the_access_list_of_the_page_lets_no_device_order_another(
    fleet: Start, make_broker: Callable[..., Mosquitto], tmp_path: Path, repository: Path
) -> None:
    page = (repository / "docs" / "fleet.md").read_text("utf-8")
    (tmp_path / "acl").write_text(page.partition("```\n# each device")[2].partition("\n")[2].partition("```")[0])
    passwords = tmp_path / "passwords"
    for user in ("yard-1", "yard-2", "operator"):
        subprocess.run(
            ["mosquitto_passwd", *([] if passwords.exists() else ["-c"]), "-b", str(passwords), user, f"of-{user}"],
            check=True,
        )
    passwords.chmod(0o644)
    broker = make_broker("allow_anonymous false", f"password_file {passwords}", f"acl_file {tmp_path / 'acl'}")
    broker.start()

    def heard(user: str, topic: str) -> list[str]:
        done = subprocess.run(
            ["mosquitto_sub", "-p", str(broker.port), "-u", user, "-P", f"of-{user}", "-t", topic, "-W", "1"],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.splitlines()

    def say(user: str, topic: str, text: str) -> None:
        words = ["-p", str(broker.port), "-u", user, "-P", f"of-{user}", "-t", topic, "-m", text, "-r", "-q", "1"]
        subprocess.run(["mosquitto_pub", *words], check=False, capture_output=True)

    say("yard-1", "edgemeta/yard-2/cmd/rollout", "stolen")
    say("yard-1", "edgemeta/yard-2/info", "stolen")
    say("yard-1", "edgemeta/.models/ab/0", "stolen")
    assert heard("operator", "edgemeta/#") == []
    say("operator", "edgemeta/yard-2/cmd/rollout", "order")
    say("operator", "edgemeta/.models/ab/0", "part")
    say("yard-2", "edgemeta/yard-2/info", "mine")
    assert heard("yard-2", "edgemeta/yard-2/cmd/+") == ["order"]
    assert heard("yard-2", "edgemeta/.models/ab/0") == ["part"]
    assert heard("yard-1", "edgemeta/#") == ["part"]
