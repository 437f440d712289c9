"""The whole application: a service with its watchdog, changes, commands and signals, from a config file to its end."""

import logging
import os
from pathlib import Path

import cv2

from edgemeta.daemon.config.error_text import for_log
from edgemeta.daemon.messages.channels import (
    MODEL_COMMAND,
    RELOAD_COMMAND,
    RESTART_COMMAND,
    ROLLOUT_COMMAND,
    SET_COMMAND,
)
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.runtime.log_setup import log_pending_repeats, set_up
from edgemeta.daemon.runtime.one_arena import share_one_arena
from edgemeta.daemon.runtime.sd_notify import Notifier
from edgemeta.daemon.runtime.signals import RELOAD, Signals
from edgemeta.daemon.runtime.threads import exit_process
from edgemeta.daemon.service.again import start_again
from edgemeta.daemon.service.change_queue import ChangeQueue
from edgemeta.daemon.service.commands import Commands
from edgemeta.daemon.service.model_choice import ModelChoice
from edgemeta.daemon.service.plan import Plan, prepare_start
from edgemeta.daemon.service.service import Service
from edgemeta.daemon.service.taught_models import TaughtModels
from edgemeta.daemon.service.watchdog import Watchdog
from edgemeta.model.errors import EdgemetaError

log = logging.getLogger(__name__)

STOPS_WITHIN = 1.5
"""Seconds from a signal until hung threads are abandoned; with Python's own exit this keeps the promised 2 s."""

READERS_END_WITHIN = 0.5
"""Seconds of these for readers that cameras have abandoned: a call into a driver or decoder may still return."""

CHANGES_END_WITHIN = 0.1
"""Seconds of these for a change in progress: one that hangs in a compiler or driver is abandoned."""


def run_service(file: Path) -> None:
    """Run the service that a config file describes until SIGTERM or SIGINT, then exit the process.

    Exit code 0 after a signal, 1 after an error. Raises ConfigError where the config cannot be used.
    """
    share_one_arena()
    cv2.setNumThreads(1)  # pictures are small: the threads of OpenCV's pool would take more waiting than they save
    with Signals() as signals:
        set_up("info")
        plan = prepare_start(file)
        set_up(plan.config.log.level, plan.config.log.format)
        app = App(plan, signals, Notifier.from_environment(os.environ))
        app.start()
        app.wait()
        deadline = app.stop()
    if app.restarts and not app.failed:
        log.info("restarting")
        log_pending_repeats()
        start_again(app.notifier)
    exit_process(code=1 if app.failed else 0, timeout=min(READERS_END_WITHIN, deadline.left))


class App:
    """Builds the parts, starts them, waits for signals and stops them. Main thread only."""

    def __init__(self, plan: Plan, signals: Signals, notifier: Notifier) -> None:
        self._signals = signals
        self._errors: list[BaseException] = []
        self._service = service = Service(plan, self._on_fatal)
        self.notifier = notifier
        self.restarts = False
        """Whether the service is to start again after it has stopped."""
        self._watchdog = Watchdog(notifier, service.parts.health, self._on_fatal)
        self._changes = changes = ChangeQueue(service, self._watchdog, self._on_fatal)
        config, parts = plan.config, service.parts
        models = ModelChoice(changes, service.in_use, parts.telemetry.models, parts.fetcher, parts.rollouts)
        commands = Commands(
            changes,
            *(models, parts.rollouts, parts.publisher, parts.identity, config.mqtt.base_topic, config.cameras),
            self._restart,
        )
        handlers = {
            RELOAD_COMMAND: commands.reload,
            MODEL_COMMAND: commands.model,
            SET_COMMAND: commands.set,
            RESTART_COMMAND: commands.restart,
        }
        if config.swap.rollouts != "refuse":
            handlers[ROLLOUT_COMMAND] = commands.rollout
        service.register_commands(handlers, commands.refuse)
        if parts.collection is not None:
            parts.collection.use = TaughtModels(changes, parts.collection).use

    @property
    def failed(self) -> bool:
        """Whether an error, not a signal, ended the service."""
        return bool(self._errors)

    def start(self) -> None:
        """Start the service, then what watches and changes it."""
        self._service.start()
        self._watchdog.start()
        self._changes.start()
        self._service.parts.rollouts.start(self._changes)

    def wait(self) -> None:
        """Wait for a signal to stop, or for a fatal error; SIGHUP reloads the config meanwhile."""
        while self._signals.wait() == RELOAD:
            self._changes.reload("signal")

    def stop(self) -> Deadline:
        """Stop everything in order and log the error, if one ended the service. Returns the deadline of the stop."""
        deadline = Deadline(STOPS_WITHIN)
        log_pending_repeats()
        self._watchdog.stop(self.restarts)
        self._changes.stop(CHANGES_END_WITHIN)
        self._service.stop(deadline)
        log_pending_repeats()
        if self._errors:
            _log_fatal(self._errors[0])
        return deadline

    def _restart(self) -> None:
        """Stop the service, to start it again; any thread may call."""
        self.restarts = True
        self._signals.interrupt()

    def _on_fatal(self, error: BaseException) -> None:
        """End the service because of an error in one of its threads."""
        self._errors.append(error)
        self._signals.interrupt()


def _log_fatal(error: BaseException) -> None:
    """Log why the service stopped: an expected error in its one sentence, another one with its traceback."""
    if isinstance(error, EdgemetaError):
        log.critical("%s", error)
    else:
        log.critical("unexpected error, service stopped", exc_info=for_log(error))
