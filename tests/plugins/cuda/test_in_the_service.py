"""The command and the service as processes on the emulated driver, found by the loader like the real one."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import CompilerError, find_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.kernels.cuda.preprocess.launch import preprocessing_source
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.emulation.executor import StoringCompiler

DEADLINE = 200.0
"""Seconds after which a test gives up: an emulated device beside other work takes a minute for 90 frames."""
EDGEMETA = str(Path(sys.executable).with_name("edgemeta"))


class AsNvidias:
    """The emulation's compiler under the name of the one that the command finds: its modules fill the cache ahead."""

    def __init__(self, architecture: Architecture) -> None:
        self.version = find_compiler(architecture).version

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        return StoringCompiler().compile(source, architecture)


DEVICES = {"jetson-nano": "sm_53", "jetson-orin": "sm_87"}


@pytest.fixture(
    scope="module",
    params=["jetson-nano", pytest.param("jetson-orin", marks=pytest.mark.gate("20 s: the same once more"))],
)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a process needs to find the driver, one device and compiled kernels."""
    pytest.importorskip("pycuda", reason="PyCUDA is not installed: benchmarks/gpu/pycuda_wheel.sh makes its wheel")
    from tests.emulation import driver

    folder = tmp_path_factory.mktemp("cache")
    architecture = ARCHITECTURES[DEVICES[request.param]]
    try:
        cubins = Cubins(folder, AsNvidias(architecture))
    except CompilerError as error:
        pytest.skip(str(error))
    model = load(find("resnet8-cifar10"))
    for source in (*lower(model, architecture).sources, preprocessing_source(model, architecture)):
        cubins.get(source, architecture)
    return os.environ | {
        "LD_LIBRARY_PATH": str(driver.build().parent),
        "EDGEMETA_EMULATED_DEVICES": "1",
        "EDGEMETA_EMULATED_ARCHITECTURE": architecture.name,
        "EDGEMETA_CACHE": str(folder),
        "CONFIG": f"{request.param}.yaml",
    }


def edgemeta(environment: dict[str, str], *words: object) -> "subprocess.CompletedProcess[str]":
    command = [EDGEMETA, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)


def by_rule(config: Path, folder: Path) -> Path:
    """A shipped config without tuning, which takes minutes on an emulated device."""
    text = config.read_text().replace("tiles: measured", "tiles: rule")
    if "tiles: rule" not in text:
        text = text.replace("  name: cuda\n", "  name: cuda\n  options: {tiles: rule}\n")
    path = folder / config.name
    path.write_text(text)
    return path


def test_backends_names_the_device(environment: dict[str, str]) -> None:
    entry = json.loads(edgemeta(environment, "backends", "--json").stdout)["backends"]["cuda"]
    assert entry["available"], entry
    assert f"({environment['EDGEMETA_EMULATED_ARCHITECTURE']}), " in entry["reason"]


@pytest.mark.gate("3 s: a shipped network is loaded, emulated")
def test_the_jetson_configs_are_valid(environment: dict[str, str], repository: Path, tmp_path: Path) -> None:
    config = by_rule(repository / "configs" / environment["CONFIG"], tmp_path)
    done = edgemeta(environment, "check", "--json", config)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["backend"] == "cuda"


@pytest.mark.parametrize(
    "keys",
    [
        "",
        pytest.param("preprocess: device, ", marks=pytest.mark.gate("10 s: the same with frames on the device")),
    ],
    ids=["cpu", "device"],
)
def test_the_service_runs_on_the_device_and_stops_in_order(
    environment: dict[str, str], tmp_path: Path, keys: str
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "model: resnet8-cifar10\n"
        f"backend: {{name: cuda, {keys}options: {{tiles: rule}}}}\n"
        "batch: {max_frames: 2}\n"
        'cameras: {a: {source: "synthetic://", fps: 5}, b: {source: "synthetic://", fps: 5}}\n'
        "mqtt: {port: 1}\n"
        "log: {level: debug}\n"
    )
    service = subprocess.Popen([EDGEMETA, "run", str(config)], env=environment, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(service.stderr.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        wait_until(lambda: any("camera a" in line for line in said), said, service)
    finally:
        service.send_signal(signal.SIGTERM)
        code = service.wait(DEADLINE)
        reader.join(DEADLINE)
        service.stderr.close()  # type: ignore[union-attr]
    log = "".join(said)
    assert code == 0, log
    assert "Traceback" not in log
    assert "not classified" not in log


@pytest.mark.gate("7 s: an emulated network under frames")
def test_a_failed_gpu_ends_the_service_for_a_restart(environment: dict[str, str], tmp_path: Path) -> None:
    """A session that is lost would fail every later frame, too."""
    config = tmp_path / "config.yaml"
    config.write_text(
        "model: resnet8-cifar10\nbackend: {name: cuda, options: {tiles: rule}}\n"
        'cameras: {a: {source: "synthetic://", fps: 20}}\n'
        f"mqtt: {{port: 1}}\ndata_folder: {tmp_path}\n"
    )
    faults = "cuGraphLaunch:90:719"  # behind the self-tests at the start
    done = edgemeta(environment | {"EDGEMETA_EMULATED_FAULTS": faults}, "run", config)
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if "cuGraphLaunch failed" in line]
    assert len(said) == 1, done.stderr
    assert "backend cuda: a kernel failed on the device while running a batch of 1: cuGraphLaunch failed" in said[0]
    assert "Traceback" not in done.stderr
    assert "stopped" in done.stderr


def wait_until(condition: Callable[[], bool], said: list[str], service: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, said
        assert service.poll() is None, said
        time.sleep(0.01)
