"""Plain numbers for subscribers that read no JSON, from a real service at a real broker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.messages.channels import COUNT, Topics
from rig.square_detector import save_square_detector, write_squares
from rig.waiting import wait_until
from tests.daemon.conftest import Subscriber


@pytest.mark.gate("4 s: a service with a broker")
def test_each_label_and_zone_has_its_number_and_it_is_retained(
    broker: Any, make_subscriber: Any, write_config: Callable[..., Path], run_daemon: Any, tmp_path: Path
) -> None:
    picture = tmp_path / "squares.png"
    write_squares(picture, {(1, 1): "red", (5, 3): "green", (6, 3): "green"})
    right = {"polygon": [[0.5, 0], [1, 0], [1, 1], [0.5, 1]], "labels": ["green"]}
    camera = {"source": str(picture), "fps": 20, "loop": True, "zones": {"right": right}}
    run_daemon(
        write_config(
            model=str(save_square_detector(tmp_path / "squares.safetensors")),
            cameras={"front": camera, "quiet": {**camera, "publish": {"plain_counts": False}}},
            publish={"plain_counts": True},
            mqtt={"host": "127.0.0.1", "port": broker.port},
        )
    )
    live: Subscriber = make_subscriber(broker.port)
    expected = {"red": b"1", "green": b"2", "blue": b"0", "right/green": b"2"}
    for label, number in expected.items():
        live.wait_for(f"front/count/{label}", lambda message, number=number: message.payload == number)
    write_squares(picture, {(1, 1): "red", (2, 1): "red"})
    live.wait_for("front/count/right/green", lambda message: message.payload == b"0")
    live.wait_for("front/count/red", lambda message: message.payload == b"2")
    late: Subscriber = make_subscriber(broker.port, "edgemeta/+/+/count/#")
    wait_until(lambda: len(late.received) >= len(expected), "all counts")
    assert {message.topic for message in late.received} == {f"edgemeta/test/front/count/{each}" for each in expected}
    assert all(message.retained for message in late.received)


def test_characters_that_no_topic_level_has_are_replaced() -> None:
    assert Topics("b", "d").of(COUNT, "c", label="a/b+#c ü") == "b/d/c/count/a-b--c ü"
    assert Topics("b", "d").of(COUNT, "c", zone="yard", label="x") == "b/d/c/count/yard/x"
