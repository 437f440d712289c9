"""All probes, each in a process of its own with a deadline: a driver that crashes or hangs is one sentence."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar

from edgemeta import __version__
from edgemeta.cli.doctor import kernels, machine, speed, video
from edgemeta.cli.doctor.connecting import broker
from edgemeta.cli.doctor.problems import problems
from edgemeta.cli.doctor.report import (
    BackendState,
    Broker,
    DoctorReport,
    KernelTest,
    Problem,
    RuntimeSpeed,
    VideoDevice,
)
from edgemeta.cli.progress import Move
from edgemeta.daemon.config.broker import MqttConfig
from edgemeta.daemon.config.data_folder import data_folder
from edgemeta.daemon.messages.stats import DeviceHealth
from edgemeta.daemon.metrics.device_health import HealthReader
from edgemeta.daemon.runtime.clock import kernel_says_synchronized
from edgemeta.plugins.registry import load, names
from edgemeta.toolchain.child import ChildError, in_child

T = TypeVar("T")

PROBE, KERNELS = 20.0, 60.0
"""Seconds that one probe may take, and that all self-tests may."""
TIMED = 1 / 30
"""For so much of the self-tests' time a runtime is timed."""
HANGS = 10.0
"""Seconds beyond a self-test's time from which on it hangs."""


@dataclass(frozen=True)
class Asked:
    """The broker to try; the folder whose disk counts; names that no report may have; mistakes of the config."""

    mqtt: MqttConfig | None = None
    folder: str | None = None
    names: frozenset[str] = frozenset()
    mistakes: tuple[Problem, ...] = ()


class _Steps:
    """Moves a bar by one for each probe; `more` have become known."""

    def __init__(self, progress: Move) -> None:
        self._progress, self._done, self._total = progress, 0, 0

    def more(self, count: int) -> None:
        self._total += count

    def __call__(self, probe: Callable[[], T], otherwise: Callable[[str], T], seconds: float = PROBE) -> T:
        """What a probe gives, or what stands for it with the reason for its failure."""
        try:
            return in_child(probe, None, seconds)
        except ChildError as error:
            return otherwise(str(error))
        finally:
            self._done += 1
            self._progress(self._done, max(self._total, self._done))


def examined(asked: Asked, seconds: float, progress: Move) -> DoctorReport:
    """The report; `seconds` for all self-tests together."""
    begin, step = time.monotonic(), _Steps(progress)
    devices = video.devices()
    step.more(len(names()) + len(devices) + 5)
    backends = [step(partial(_backend, name), partial(_absent, name)) for name in names()]
    available = [each.name for each in backends if each.available]
    failures: list[Problem] = []
    health = step(partial(_health, asked.folder), partial(_health_unknown, failures))
    report = DoctorReport(
        edgemeta=__version__.partition("+")[0],
        date=datetime.now(timezone.utc).date().isoformat(),
        seconds=0.0,
        ok=True,
        board=machine.board(),
        backends=backends,
        video=[step(partial(video.video_device, path), _broken_device) for path in devices],
        gstreamer=step(video.gstreamer, lambda _: None),
        broker=step(lambda: _answer(asked), lambda why: Broker(connected=False, seconds=PROBE, reason=why)),
        clock_synchronized=step(kernel_says_synchronized, lambda _: False),
        health=health,
        service=step(machine.service_state, lambda _: "unknown"),
        kernels=_tests(available, seconds, step),
        speed=_speeds(available, seconds * TIMED, step),
        problems=[],
    )
    found = [*asked.mistakes, *failures, *problems(report)]
    took = round(time.monotonic() - begin, 1)
    return report.model_copy(update={"problems": found, "ok": not found, "seconds": took})


def _backend(name: str) -> BackendState:
    probe = load(name).probe()
    return BackendState(name=name, available=probe.available, reason=probe.reason)


def _absent(name: str, why: str) -> BackendState:
    return BackendState(name=name, available=False, reason=f"to ask it failed: {why}")


def _broken_device(why: str) -> VideoDevice:
    return VideoDevice(kind="unreadable", card=None, driver=None, formats=[], failure=why)


def _health(folder: str | None) -> DeviceHealth:
    return HealthReader(data_folder(folder)).last


def _health_unknown(failures: list[Problem], why: str) -> DeviceHealth:
    failures.append(Problem(part="health", text=f"the device's health: {why}", hint="does a network disk hang?"))
    return DeviceHealth()


def _answer(asked: Asked) -> Broker | None:
    return None if asked.mqtt is None else broker(asked.mqtt)


def _tests(available: list[str], seconds: float, step: _Steps) -> list[KernelTest]:
    variants = kernels.variants(available)
    step.more(len(variants))
    kernels.networks()  # once, for all children
    end, found = time.monotonic() + seconds, []
    for number, variant in enumerate(variants):
        now = time.monotonic()
        share = (end - now) / (len(variants) - number)  # what one leaves is for those after it
        if share > 0:
            test, instead = partial(kernels.outcome, variant, now + share), partial(kernels.failed, variant)
            found.append(step(test, instead, share + HANGS))
        else:
            found.append(kernels.failed(variant, None))
    return found


def _speeds(available: list[str], seconds: float, step: _Steps) -> list[RuntimeSpeed]:
    runtimes = (None, *speed.installed()) if "cpu" in available else ()
    step.more(len(runtimes))
    return [step(partial(speed.speed, peer, seconds), partial(speed.failed, peer)) for peer in runtimes]
