"""Tests that need a part which this machine lacks: they are skipped, and the end of the run says what to install.

A test that skips says why in one sentence that names the part as "Debian package NAME" or "Debian packages NAME, NAME",
as "extra `NAME`" or as "edgemeta[NAME]". On the gate (EDGEMETA_FULL=1) every part is installed: a skipped test, or a
test file skipped whole, has failed there; but for a reason that begins with "processor: ", since none can be installed.
"""

import os
import re
from collections import Counter
from collections.abc import Generator, Iterable

import pytest

from tests.verdicts import PROVED

PROCESSOR = "processor: "
"""How the reason of a test begins that wants instructions that this machine lacks."""

_DEBIAN = re.compile(r"Debian packages? ([a-z0-9][^()]*)")
_EXTRA = re.compile(r"extra `([\w-]+)`|edgemeta\[([\w-]+)\]")


def on_any_of(names: Iterable[str], isas: Iterable[str]) -> pytest.MarkDecorator:
    """Run a test with each `isa` of `names` that is among those of this machine, `isas`; skip it if none is."""
    names, isas = tuple(names), tuple(isas)
    lacking = pytest.mark.skip(reason=f"{PROCESSOR}it has none of {', '.join(names)}")
    found = [each for each in names if each in isas]
    return pytest.mark.parametrize("isa", found or [pytest.param("none", marks=lacking)])


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a test was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def part_of(reason: str) -> str:
    """What to install, from the reason of a skip; the reason up to its parenthesis where it names nothing."""
    if found := _DEBIAN.search(reason):
        names = found[1].replace(",", " ").split()
        return f"Debian package{'s' * (len(names) > 1)} {' '.join(names)}"
    if found := _EXTRA.search(reason):
        return f"pip install 'edgemeta[{found[1] or found[2]}]'"
    return reason.split("): ")[0] + ")" if "): " in reason else reason


def summary(skipped: Iterable[pytest.TestReport | pytest.CollectReport]) -> list[str]:
    """One line for each missing part: how many tests, or whole test files, were skipped for it."""
    counts: Counter[tuple[str, str]] = Counter()
    for report in skipped:
        if reason_of(report) == PROVED:
            continue
        unit = "test" if isinstance(report, pytest.TestReport) else "test file"
        counts[part_of(reason_of(report)), unit] += 1
    return [f"{count:5} {unit + 's' * (count > 1):10} {part}" for (part, unit), count in counts.most_common()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name every missing part once, as the last lines of the run."""
    if lines := summary(terminalreporter.getreports("skipped")):
        terminalreporter.section("skipped, since parts are missing", yellow=True)
        for line in lines:
            terminalreporter.write_line(line)


def _fail_on_the_gate(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or os.environ.get("EDGEMETA_FULL") != "1" or hasattr(report, "wasxfail"):
        return
    if not reason_of(report).startswith(PROCESSOR):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be skipped: {report.longrepr}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test that is skipped has failed on the gate."""
    report = yield
    _fail_on_the_gate(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A test file that is skipped whole has failed on the gate."""
    report = yield
    _fail_on_the_gate(report)
    return report
