"""The service in an emulated Python for 64-bit ARM: it starts, classifies with backend `neon`, publishes to MQTT."""

import os
import signal
import subprocess
from collections.abc import Callable
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import cv2
import pytest
import yaml

from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from edgemeta.plugins.drawn.show import Show
from edgemeta.plugins.preprocess import make_preprocessor
from edgemeta.tasks.classification import logits_of
from rig.arm.machines import AARCH64, MissingToolError, build
from rig.arm.python import EmulatedPython

START = """
import sys
from edgemeta.cli.main import main
sys.argv = ["edgemeta", "run", sys.argv[1]]
main()
"""
PROCESSOR = "cortex-a76"


@pytest.fixture
def emulated() -> EmulatedPython:
    requirements = [text.replace(" ", "") for text in requires("edgemeta") or () if "extra" not in text]
    try:
        build(AARCH64)
        return EmulatedPython(PROCESSOR, requirements, "service")
    except MissingToolError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(1800)
@pytest.mark.gate("a Python and its packages are emulated; the first time they are downloaded")
def test_the_service_publishes_from_an_arm_processor(
    emulated: EmulatedPython, broker: Any, make_subscriber: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    frame = Show().frame(0)
    cv2.imwrite(str(tmp_path / "frame.png"), frame)
    config = tmp_path / "config.yaml"
    sections = {
        "model": "resnet8-cifar10",
        "backend": {"name": "neon", "options": {"isa": "dotprod"}},
        "cameras": {"front": {"source": str(tmp_path / "frame.png")}},
        "mqtt": {"host": "127.0.0.1", "port": broker.port},
        "data_folder": str(tmp_path / "data"),
    }
    config.write_text(yaml.safe_dump(sections))
    subscriber = make_subscriber(broker.port)
    settings = {
        **os.environ,
        "PYTHONPATH": f"{repository / 'src'}:{emulated.packages}",
        "EDGEMETA_CPU_LIBRARY": str(AARCH64.folder / "kernels/cpu/libedgemeta_cpu.so"),
    }
    with (tmp_path / "log").open("w") as log:
        service = subprocess.Popen(emulated.command("-c", START, str(config)), env=settings, stdout=log, stderr=log)
        try:
            message = subscriber.wait("/front/frame", timeout=200)[0].json
            service.send_signal(signal.SIGTERM)
            assert service.wait(60) == 0, (tmp_path / "log").read_text()
        finally:
            service.kill()
    subscriber.wait_for("/availability", lambda availability: availability.payload == b"offline")
    model = load(find("resnet8-cifar10"))
    tensor = make_preprocessor(model, frame.shape)(frame)
    label = model.task.labels[int(logits_of(reference.run(model, tensor)).argmax())]
    assert message["backend"] == "neon"
    assert message["model"]["sha256"] == model.digest
    assert message["labels"][0]["label"] == label
