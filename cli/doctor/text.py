"""The report as lines of at most 80 columns."""

import textwrap
from collections.abc import Iterator
from itertools import groupby

from edgemeta.cli.doctor.report import DoctorReport, KernelTest

COLUMNS = 80
_NAME = 14
GOOD, BAD, NEUTRAL = "ok", "!!", "-"


def lines(report: DoctorReport) -> Iterator[str]:
    """All of it; what is in the way comes last, where a terminal shows it."""
    board = report.board
    yield from _wrapped(f"edgemeta {report.edgemeta} on {board.model or 'this machine'}", "")
    memory = f"{board.memory_bytes / 1e9:.1f} GB"
    what = f"{board.processor}, {board.architecture}, {board.cores} processors, {memory}"
    yield from _row("machine", NEUTRAL, what)
    names = (board.distribution, f"Linux {board.kernel}", board.libc, f"Python {board.python} ({board.bits} bits)")
    yield from _row("system", NEUTRAL, ", ".join(filter(None, names)) + (", in a container" * board.container))
    yield from _head("Backends")
    for backend in report.backends:
        yield from _row(backend.name, GOOD if backend.available else NEUTRAL, backend.reason)
    yield from _head("Kernels beside the reference, bit for bit")
    for _, tests in groupby(report.kernels, lambda test: (test.backend, test.isa)):
        yield from _tests(list(tests))
    yield from _head("Speed: ResNet-8, one image, one thread")
    for runtime in report.speed:
        if runtime.median_us is None:
            yield from _row("", BAD, f"{runtime.runtime}: {runtime.failure}")
        else:
            beside = f"; ours beside it {runtime.ours_us:,.1f}, {runtime.ratio:.2f} of it" if runtime.ratio else ""
            yield from _row("", GOOD, f"{runtime.runtime}: {runtime.median_us:,.1f} us{beside}")
    yield from _head("Video")
    yield from _video(report)
    yield from _head("The rest")
    yield from _rest(report)
    yield ""
    if not report.problems:
        yield f"Nothing is in the way ({report.seconds:.0f} s)."
        return
    yield f"In the way ({report.seconds:.0f} s):"
    for number, problem in enumerate(report.problems, 1):
        yield from _wrapped(problem.text, f"{number:>2}. ")
        yield from _wrapped(problem.hint, "    -> ")


def _tests(tests: list[KernelTest]) -> Iterator[str]:
    """One row for the forms of an instruction set."""
    first, wrong = tests[0], [test for test in tests if test.differ or test.failure]
    forms = ", ".join(f"{test.form}{f' x{test.threads}' if test.threads > 1 else ''}" for test in tests if test.form)
    run, left = sum(test.networks for test in tests), sum(test.left for test in tests)
    text = f"{run} runs, {sum(len(test.differ) for test in tests)} differ" + (f" ({forms})" if forms else "")
    text += f"; no time for {left} more" if left else ""
    sign = BAD if wrong else GOOD if run else NEUTRAL
    yield from _row(" ".join(filter(None, (first.backend, first.isa))), sign, text)


def _video(report: DoctorReport) -> Iterator[str]:
    for device in report.video:
        text = f"{device.kind}: {device.card or device.failure or 'no permission'} {' '.join(device.formats)}".rstrip()
        yield from _row("v4l2", BAD if device.kind == "unreadable" or device.failure else GOOD, text)
    if not report.video:
        yield from _row("v4l2", NEUTRAL, "no device")
    if report.gstreamer is None:
        yield from _row("gstreamer", NEUTRAL, "not installed")
    else:
        found = " ".join(report.gstreamer.elements) or "no element for cameras or hardware decoders"
        yield from _row("gstreamer", GOOD, f"{report.gstreamer.version}: {found}")


def _rest(report: DoctorReport) -> Iterator[str]:
    broker, health = report.broker, report.health
    if broker is None:
        yield from _row("broker", NEUTRAL, "not asked: --config FILE or --broker HOST names it")
    else:
        text = broker.reason or f"accepts a connection, after {1000 * broker.seconds:.0f} ms"
        yield from _row("broker", GOOD if broker.connected else BAD, text)
    synchronized = report.clock_synchronized
    yield from _row("clock", GOOD if synchronized else BAD, "synchronized" if synchronized else "not synchronized")
    parts = {
        "load {:.2f}": health.load,
        "memory {:.0%} in use": health.memory,
        "disk {:.0%} in use": health.disk,
        "{:.0f} degrees Celsius": health.temperature_c,
    }
    texts = [text.format(value) for text, value in parts.items() if value is not None]
    throttled = {None: "", True: ", throttled", False: ", not throttled"}[health.throttled]
    yield from _row(
        "device", BAD if any(p.part == "health" for p in report.problems) else GOOD, ", ".join(texts) + throttled
    )
    state = BAD if report.service in ("failed", "unknown") else GOOD if report.service == "active" else NEUTRAL
    yield from _row("service", state, report.service)


def _head(text: str) -> Iterator[str]:
    yield ""
    yield text


def _row(name: str, mark: str, text: str) -> Iterator[str]:
    yield from _wrapped(text, f"  {name:<{_NAME}} {mark:<2}  ")


def _wrapped(text: str, first: str) -> Iterator[str]:
    printable = " ".join("".join(each if each.isprintable() else " " for each in text).split()) or "-"
    yield from textwrap.wrap(printable, COLUMNS, initial_indent=first, subsequent_indent=" " * len(first))
