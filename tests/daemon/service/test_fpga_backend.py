"""The service from pictures to messages with every network on a simulated netlist."""

from pathlib import Path
from typing import Any

import pytest

from edgemeta.kernels.fpga.simulate.model import missing_tools
from edgemeta.model.file import load
from edgemeta.plugins.registry import choose
from tests.daemon.conftest import broker_keys


@pytest.mark.gate("15 s: Verilator compiles the network")
def test_frames_are_classified_by_the_netlist(
    broker: Any, subscriber: Any, write_config: Any, colours: Path, run_daemon: Any, model_file: Path, tmp_path: Path
) -> None:
    missing = missing_tools()
    if missing is not None:
        pytest.skip(missing)
    options = {"transport": "simulated", "cache": str(tmp_path / "cache")}
    choose("fpga").compile(load(model_file), options).close()
    daemon = run_daemon(
        write_config(
            backend={"name": "fpga", "options": options},
            cameras={"front": {"source": str(colours), "fps": 4}},
            mqtt=broker_keys(broker),
            state={"min_frames": 1, "window_frames": 1},
            watch_files=False,
        )
    )
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "ended")
    frames = [message.json for message in subscriber.wait("front/frame", 3)]
    assert [frame["labels"][0]["label"] for frame in frames] == ["red", "green", "blue"]
    assert {frame["backend"] for frame in frames} == {"fpga"}
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.said
