"""Changes to a running service, config reloads and model swaps, carried out one at a time by a thread.

Frames, signals and the link never wait for a change. Equal requests that wait are carried out once, and all requesters
get the result; a newer request cancels a swap that has not replaced its models yet. The config's files are watched
here, too: a requested reload has read what the watcher would report.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from edgemeta.daemon.config.error_text import for_log, reason_of
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.inference.model_loader import close_all
from edgemeta.daemon.inference.swap.replacement import Trigger
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.service.change_result import Answer, ChangeResult
from edgemeta.daemon.service.file_watcher import FileWatcher
from edgemeta.daemon.service.plan import Plan, PlanError, prepare, replan
from edgemeta.daemon.service.reload import NOTHING_CHANGED, apply_plan, reload
from edgemeta.daemon.service.service import Service
from edgemeta.daemon.service.settings import Settings, write_settings
from edgemeta.model.errors import EdgemetaError

log = logging.getLogger(__name__)

WAITING = 8
"""Most changes that may wait (and one reload besides), and most answers that may wait for each."""

_RELOAD = "reload"

WRITES_EVERY = 60.0
"""Seconds until the last good model is written again to a disk that could not be written."""


class ChangeListener(Protocol):
    """Called about changes: the watchdog, which reports them to the service manager."""

    def change_started(self) -> None:
        """A change has started."""

    def change_finished(self, message: str) -> None:
        """It has ended, or is checked and continues in the background. message: its result."""


@dataclass(frozen=True)
class _Request:
    """One requested change with all its answers. Changes with the same subject, unless None, are equal."""

    work: Callable[[Trigger], ChangeResult]
    answers: tuple[Answer, ...]
    trigger: Trigger
    subject: Hashable
    is_minor: bool = False
    """Whether a reload that it cancelled is requested again in any case."""


def _no_answer(_outcome: ChangeResult) -> None:
    """Ignore the result: nobody requested an answer."""


def _answer_all(request: _Request, outcome: ChangeResult) -> None:
    for answer in request.answers:
        answer(outcome)


class ChangeQueue:
    """Carries out the changes of one service, one at a time. Any thread may request them."""

    def __init__(self, service: Service, listener: ChangeListener, on_fatal: Callable[[BaseException], None]) -> None:
        self._service = service
        self._listener = listener
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._cancelled_reload: Trigger | None = None
        """Trigger of a reload that was cancelled for a command."""
        self._watch = FileWatcher(service.in_use.plan.path, lambda: self.reload("file"), on_fatal)
        self._thread = guarded_thread("changes", self._run, on_fatal)

    def start(self) -> None:
        """Start the thread and the file watcher."""
        self._thread.start()
        self._watch.start()

    def stop(self, timeout: float) -> None:
        """Cancel the change in progress and start no other; a hung one is abandoned after `timeout` seconds."""
        self._watch.stop(timeout)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._service.parts.swaps.stop()
        self._thread.join(timeout)

    def reload(self, trigger: Trigger, answer: Answer = _no_answer) -> None:
        """Request that the config file is read again."""
        self._enqueue(_Request(self._reload, (answer,), trigger, _RELOAD))

    def swap_model(self, choose: Callable[[Plan], Plan], answer: Answer, subject: Hashable = None) -> None:
        """Request that the plan which `choose` derives from the running one is applied. It may raise EdgemetaError.

        subject: equal for requests of the same choice.
        """
        self._enqueue(_Request(lambda _: self._swap_model(choose), (answer,), "command", subject))

    def set_settings(self, choose: Callable[[Plan], Settings], answer: Answer) -> None:
        """Request that the settings which `choose` derives from the running plan are applied, and kept if they are.

        It may raise EdgemetaError.
        """
        self._enqueue(_Request(lambda _: self._set_settings(choose), (answer,), "command", None, is_minor=True))

    def wrote(self, file: Path) -> None:
        """The service has written a file itself: the watcher does not report it."""
        self._watch.mark_written(file)

    def restart(self, restart: Callable[[], None], answer: Answer) -> None:
        """Request that the config file is checked, and `restart` called, after the answer, if it can be used."""

        def restarted(outcome: ChangeResult) -> None:
            answer(outcome)
            if outcome.ok:
                restart()

        self._enqueue(_Request(lambda _: self._check(), (restarted,), "command", None))

    def _enqueue(self, request: _Request) -> None:
        with self._changed:
            equal = next((one for one in self._waiting if one.subject == request.subject is not None), None)
            is_full = len(self._waiting if equal is None else equal.answers) >= WAITING
            if equal is None and request.subject == _RELOAD:
                is_full = False  # the watcher reports a saved file only once
            if equal is not None and not is_full:  # not started yet, so one run serves both requests
                self._waiting.remove(equal)
                trigger = equal.trigger if request.trigger == "file" else request.trigger
                request = replace(request, answers=(*equal.answers, *request.answers), trigger=trigger)
            if not is_full:
                self._service.parts.swaps.cancel("a newer change was requested")
                self._waiting.append(request)
                self._changed.notify_all()
        if is_full:
            what = "changes wait" if equal is None else "wait for the same change"
            _answer_all(request, ChangeResult(False, f"busy: {WAITING} {what} already"))

    def _run(self) -> None:
        was_ok = True
        while (request := self._take()) is not None:
            was_requested = request.trigger != "file"
            if was_requested:
                self._listener.change_started()
            outcome = self._outcome(request)
            if was_requested or outcome != NOTHING_CHANGED or not was_ok:
                self._listener.change_finished(outcome.message)
            was_ok = outcome.ok
            _answer_all(request, outcome)
            self._restore_reload(request, outcome)

    def _outcome(self, request: _Request) -> ChangeResult:
        """Carry out a change. Whatever goes wrong in it, the service continues as before."""
        try:
            return request.work(request.trigger)
        except Exception as error:
            reason = f"change not made, nothing changed: {reason_of(error)}"
            log.error("%s", reason, exc_info=None if isinstance(error, MemoryError) else for_log(error))
            return ChangeResult(False, reason)

    def _restore_reload(self, request: _Request, outcome: ChangeResult) -> None:
        """Request a reload again that was cancelled for a command, if that has failed or was minor."""
        if request.subject == _RELOAD:
            self._cancelled_reload = request.trigger if outcome.cancelled else None
        elif self._cancelled_reload is not None:
            trigger, self._cancelled_reload = self._cancelled_reload, None
            if request.is_minor:  # what it has set is newer than the reload
                self._enqueue(_Request(lambda each: self._reload(each, True), (_no_answer,), trigger, _RELOAD))
            elif not outcome.ok:
                self.reload(trigger)

    def _take(self) -> _Request | None:
        """Wait for the next change; None to stop. Meanwhile the last good models are written to disk."""
        last_good = self._service.parts.last_good
        while True:
            last_good.write()
            with self._changed:
                timeout = WRITES_EVERY if last_good.waiting else None
                if self._changed.wait_for(lambda: self._waiting or self._stopping, timeout):
                    break
        with self._changed:
            if self._stopping:
                return None
            self._service.parts.swaps.resume()  # requests newer than this one cancel it again
            return self._waiting.popleft()

    def _reload(self, trigger: Trigger, keep_settings: bool = False) -> ChangeResult:
        self._watch.mark_current()
        return reload(self._service.in_use.plan.path, self._service, trigger, self._before_swap, keep_settings)

    def _swap_model(self, choose: Callable[[Plan], Plan]) -> ChangeResult:
        try:
            plan = choose(self._service.in_use.plan)
        except PlanError as error:
            self._service.report_refused("command", str(error), of_config=False)
            return ChangeResult(False, str(error))
        except EdgemetaError as error:
            return ChangeResult(False, str(error))
        return apply_plan(plan, self._service, "command", self._before_swap, of_config=False)

    def _set_settings(self, choose: Callable[[Plan], Settings]) -> ChangeResult:
        running = self._service.in_use.plan
        try:
            plan = replan(running.base, running, choose(running))
        except EdgemetaError as error:
            return ChangeResult(False, str(error))
        result = apply_plan(plan, self._service, "command", self._before_swap, of_config=False)
        message = result.message.replace("config reloaded", "settings", 1)
        if result.ok and running.base.mqtt.keep_settings:
            try:
                write_settings(running.base, plan.settings)
            except OSError as error:
                message = f"{message}; not kept: {reason_of(error)}"
                log.warning("settings: %s", message)
        return replace(result, message=message)

    def _check(self) -> ChangeResult:
        running = self._service.in_use.plan
        try:
            plan = prepare(running.path, running)
        except ConfigError as error:
            return ChangeResult(False, f"not restarted: {error.mistakes[0]}")
        close_all(plan.loaded_models.values(), but=running.loaded_models.values())
        return ChangeResult(True, "restarting")

    def _before_swap(self) -> None:
        """Let the service manager continue: a swap takes as long as its frames take to arrive."""
        self._listener.change_finished("model swap started")
