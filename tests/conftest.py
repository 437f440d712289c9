"""Fixtures that tests of several folders share."""

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rig.broker import Mosquitto

pytest_plugins = ("tests.missing_parts", "tests.parts", "tests.unchanged")

# Set before anything imports NumPy or PyTorch: threads of their own would only compete with the other workers'.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell that starts the tests in the background lets them and their children ignore Ctrl-C, which some tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run, and no failure because the machine is slow.
settings.register_profile("edgemeta", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("edgemeta")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real images and video that never goes into the repository."""
    folder = Path(os.environ.get("EDGEMETA_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"test data: {folder} is not there; set EDGEMETA_DATA (docs/test-data.md)")
    return folder


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    """Makes brokers, not started; all are stopped at the end."""
    if not Mosquitto.installed():
        pytest.skip("mosquitto is not installed (Debian package mosquitto)")
    made: list[Mosquitto] = []

    def make(*lines: str) -> Mosquitto:
        folder = tmp_path / f"broker{len(made)}"
        folder.mkdir()
        made.append(Mosquitto(folder, lines) if lines else Mosquitto(folder))
        return made[-1]

    yield make
    for broker in made:
        broker.stop()


@pytest.fixture
def broker(make_broker: Callable[..., Mosquitto]) -> Mosquitto:
    made = make_broker()
    made.start()
    return made


@pytest.fixture
def fed(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Takes how many damaged inputs of a kind a test has fed; reliability/fuzz.py adds them up."""
    return lambda kind, count: record_property(f"fed: {kind}", count)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is collected stays: to look for garbage in it takes as long as half of the collection itself."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_itemcollected(item: pytest.Item) -> None:
    """Each mark `gate` says why the test is too long for `make test`."""
    for mark in item.iter_markers("gate"):
        if not (mark.args and isinstance(mark.args[0], str)):
            raise pytest.UsageError(f"{item.nodeid}: the mark `gate` needs a reason")
