"""A machine without GPU, driver or PyCUDA: one line reports what is missing; there is no silent fallback."""

import importlib.util
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

MISSING = r"no NVIDIA driver: libcuda\.so\.1 cannot be loaded"
DEADLINE = 30.0

CONFIG = """\
model: resnet8-cifar10
backend: {{name: {backend}}}
cameras: {{a: {{source: "synthetic://"}}}}
mqtt: {{port: 1}}
"""


@pytest.fixture(scope="module", autouse=True)
def no_driver() -> None:
    if importlib.util.find_spec("pycuda") is None:
        pytest.skip("PyCUDA is not installed: benchmarks/gpu/pycuda_wheel.sh makes its wheel")
    program = "import ctypes; ctypes.CDLL('libcuda.so.1')"
    if subprocess.run([sys.executable, "-c", program], capture_output=True).returncode == 0:
        pytest.skip("this machine has an NVIDIA driver; the tests marked gpu are for it")


def edgemeta(*words: object) -> "subprocess.CompletedProcess[str]":
    command = Path(sys.executable).with_name("edgemeta")
    return subprocess.run([str(command), *map(str, words)], capture_output=True, text=True, timeout=60)


def config(folder: Path, backend: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(backend=backend))
    return path


def test_backends_reports_why_cuda_is_not_available() -> None:
    entry = json.loads(edgemeta("backends", "--json").stdout)["backends"]["cuda"]
    assert entry["available"] is False
    assert re.fullmatch(MISSING, entry["reason"])
    (line,) = [line for line in edgemeta("backends").stdout.splitlines() if "cuda" in line]
    assert re.search(MISSING, line)


def test_without_pycuda_the_backend_is_not_available(tmp_path: Path) -> None:
    """The same packages with PyCUDA left out, through a folder of links."""
    packages = Path(importlib.util.find_spec("numpy").origin).parent.parent  # type: ignore[union-attr,arg-type]
    for entry in packages.iterdir():
        if not entry.name.startswith("pycuda"):
            (tmp_path / entry.name).symlink_to(entry)
    program = (
        f"import site, sys; site.addsitedir({str(tmp_path)!r}); sys.argv = ['edgemeta', 'backends', '--json']; "
        "from edgemeta.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, timeout=60)
    reason = json.loads(done.stdout)["backends"]["cuda"]["reason"]
    assert reason == "PyCUDA is not installed (pip install 'edgemeta[cuda]'; docs/jetson.md)"


def test_a_config_with_cuda_exits_with_78_and_the_reason(tmp_path: Path) -> None:
    for verb in ("run", "check"):
        done = edgemeta(verb, config(tmp_path, "cuda"))
        assert done.returncode == 78
        (line,) = done.stderr.splitlines()
        assert re.search(rf"config\.yaml:2: backend\.name: .*backend cuda is not available: {MISSING}", line)


@pytest.mark.parametrize("name", ["jetson-nano", "jetson-orin"])
def test_the_jetson_configs_lack_only_the_gpu(repository: Path, name: str) -> None:
    done = edgemeta("check", "--json", repository / "configs" / f"{name}.yaml")
    assert done.returncode == 78
    assert [mistake["key"] for mistake in json.loads(done.stdout)["mistakes"]] == ["backend.name"]


def test_auto_falls_back_to_the_cpu_and_logs_it(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("edgemeta")
    words = [str(command), "run", str(config(tmp_path, "auto"))]
    service = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(iter(service.stderr.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        deadline = time.monotonic() + DEADLINE
        while not any("backend cuda is not available" in line for line in said):
            assert time.monotonic() < deadline, said
            assert service.poll() is None, said
            time.sleep(0.01)
    finally:
        service.send_signal(signal.SIGTERM)
        assert service.wait(DEADLINE) == 0
        reader.join(DEADLINE)
        service.stderr.close()  # type: ignore[union-attr]
    log = "".join(said)
    assert re.search(r"backend cpu selected as the fastest available: C\+\+ kernels, \w+", log)
    assert re.search(MISSING, log)
