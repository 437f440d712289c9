"""Stages of a rollout, and which devices they add."""

import pytest

from edgemeta.cli.fleet.devices import Device
from edgemeta.cli.fleet.stages import assign, chosen, sizes
from edgemeta.model.errors import EdgemetaError
from tests.cli.fleet.test_devices import device, info


@pytest.mark.parametrize(
    ("stages", "devices", "expected"),
    [
        ("1,10%,100%", 40, [1, 4, 40]),
        ("1,10%,100%", 5, [1, 5]),
        ("1,10%,100%", 200, [1, 20, 200]),
        ("3", 2, [2]),
        ("1, 1%, 50%", 101, [1, 2, 51]),
        ("5,10%,100%", 3, [3]),
    ],
)
def test_sizes(stages: str, devices: int, expected: list[int]) -> None:
    assert sizes(stages, devices) == expected


@pytest.mark.parametrize("stages", ["", "0", "101%", "-1", "10,5", "1,,2", "ten"])
def test_what_is_no_stage_is_refused(stages: str) -> None:
    with pytest.raises(EdgemetaError, match=r"^--stages .*: found '.*"):
        sizes(stages, 20)


def test_devices_that_are_on_come_first() -> None:
    states = {"a": False, "b": True, "c": None, "d": True}
    assert assign("1,50%,100%", [Device(name, online=on) for name, on in states.items()]) == [["b"], ["d"], ["a", "c"]]


def test_only_devices_that_take_orders_are_chosen() -> None:
    none = {"rollout": None, "sha256": None, "state": "none"}
    takes, refuses = device(("info", info(rollout=none))), device(("info", info()))
    assert chosen([takes, refuses, Device("a")], "*") == ([takes], [refuses])
    assert chosen([takes], "b*") == ([], [])
