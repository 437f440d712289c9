"""Fixtures that tests of several folders share."""

import os
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings

# The same examples in every run, however slow the machine is.
settings.register_profile("edgemeta", derandomize=True, deadline=None)
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
def fed(record_property: Callable[[str, object], None]) -> Callable[[str, int], None]:
    """Takes how many damaged inputs of a kind a test has fed; reliability/fuzz.py adds them up."""
    return lambda kind, count: record_property(f"fed: {kind}", count)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On the gate (EDGEMETA_FULL=1) every part is installed, so a test that skips for a missing one has failed."""
    report = yield
    if report.skipped and os.environ.get("EDGEMETA_FULL") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"
    return report
