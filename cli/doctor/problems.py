"""What in a report is in the way, each with a hint."""

from collections.abc import Iterator, Sequence

from edgemeta.cli.doctor.report import Broker, DoctorReport, KernelTest, Problem, RuntimeSpeed, VideoDevice
from edgemeta.daemon.messages.stats import DeviceHealth

FULL, HOT = 0.95, 80.0
"""Shares of a disk or of the memory, and degrees Celsius, from which on it is a problem."""
REPORT = "send the report: it is a bug of edgemeta, or of the machine"


def problems(report: DoctorReport) -> Iterator[Problem]:
    """Those of a report whose own list is empty; `config` problems are found elsewhere."""
    states = {each.name: each for each in report.backends}
    if not states["cpu"].available:
        yield Problem(part="backends", text=f"cpu: {states['cpu'].reason}", hint="build and install the package anew")
    for test in report.kernels:
        yield from _of_test(test)
    for runtime in report.speed:
        yield from _of_runtime(runtime)
    for device in report.video:
        yield from _of_device(device)
    yield from _of_broker(report.broker)
    if not report.clock_synchronized:
        hint = "sudo timedatectl set-ntp true; in a container or sandbox that hides it: look on the host"
        yield Problem(part="clock", text="the clock is not synchronized", hint=hint)
    yield from _of_health(report.health)
    if report.service in ("failed", "unknown"):
        text = "the service has failed" if report.service == "failed" else "systemd does not answer"
        yield Problem(part="service", text=text, hint="systemctl status edgemeta; journalctl -u edgemeta")


def title(test: KernelTest) -> str:
    """What was tested: backend, instruction set, form, and threads above one."""
    threads = f"{test.threads} threads" if test.threads > 1 else None
    return " ".join(filter(None, (test.backend, test.isa, test.form, threads)))


def _of_test(test: KernelTest) -> Iterator[Problem]:
    if test.failure is not None:
        yield Problem(part="kernels", text=f"{title(test)}: {test.failure}", hint=REPORT)
    if test.differ:
        names = ", ".join(test.differ[:3]) + (", …" if len(test.differ) > 3 else "")
        text = f"{title(test)}: {len(test.differ)} of {test.networks} networks differ from the reference ({names})"
        yield Problem(part="kernels", text=text, hint=REPORT)


def _of_runtime(runtime: RuntimeSpeed) -> Iterator[Problem]:
    if runtime.failure is not None:
        hint = "it is only compared with; its package may be for another processor"
        yield Problem(part="speed", text=f"{runtime.runtime}: {runtime.failure}", hint=hint)


def _of_device(device: VideoDevice) -> Iterator[Problem]:
    if device.kind == "unreadable":
        text = "a video device cannot be opened by this user"
        yield Problem(part="video", text=text, hint='sudo usermod -aG video "$USER", then log in again')
    if device.failure is not None:
        yield Problem(part="video", text=f"a video device: {device.failure}", hint="sudo dmesg | tail; plug it in anew")


def _of_broker(broker: Broker | None) -> Iterator[Problem]:
    if broker is not None and broker.reason is not None:
        hint = "is its address right, does it run, does a firewall stand between?"
        yield Problem(part="broker", text=broker.reason, hint=hint)


def _of_health(health: DeviceHealth) -> Iterator[Problem]:
    found: Sequence[tuple[bool, str, str]] = (
        (
            (health.disk or 0) >= FULL,
            f"the disk is {_percent(health.disk)} full",
            "make room: the outbox and collected pictures need it",
        ),
        (
            (health.memory or 0) >= FULL,
            f"{_percent(health.memory)} of the memory is in use",
            "end other programs, or give the board swap",
        ),
        (
            (health.temperature_c or 0) >= HOT,
            f"it is {health.temperature_c} degrees Celsius hot",
            "a heat sink, a fan, or air",
        ),
        (
            bool(health.throttled),
            "it runs slower now, for heat or want of power",
            "a power supply and cable for this board; a heat sink",
        ),
    )
    for is_problem, text, hint in found:
        if is_problem:
            yield Problem(part="health", text=text, hint=hint)


def _percent(share: float | None) -> str:
    return f"{100 * (share or 0):.0f} %"
