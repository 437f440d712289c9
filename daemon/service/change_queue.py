"""What is asked of a running service: to read its config again, or to take another model. A thread does it, in turn.

Frames, signals and the link never wait for a change. Of equal changes that wait one is carried out, and all who asked
for it hear what came of it; a swap that has not come to its exchange is given up for what is newer. The config's files
are watched here, too: a reload that somebody asked for has read what the watch would find.
"""

import threading
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from edgemeta.daemon.inference.swap.replacement import Trigger
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.service.file_watcher import FileWatcher
from edgemeta.daemon.service.plan import Plan, PlanError
from edgemeta.daemon.service.reload import NOTHING_CHANGED, ChangeResult, apply_plan, reload
from edgemeta.daemon.service.service import Service
from edgemeta.model.errors import EdgemetaError

WAITING = 8
"""Changes that may wait for their turn (a reload besides), and answers that may wait for each."""

_RELOAD = "reload"

WRITES_EVERY = 60.0
"""Seconds after which the good model is written again to a disk that could not be written."""

Answer: TypeAlias = Callable[[ChangeResult], None]
"""Hears what came of a change, in the thread of changes."""


class Listener(Protocol):
    """Who is told of changes: the supervisor, which tells the service manager. A file that rests as it is, is none."""

    def change_started(self) -> None:
        """A change has begun."""

    def changed(self, description: str) -> None:
        """It has ended, or is checked and goes on by itself; in words."""


@dataclass(frozen=True)
class _Request:
    """One change that was asked for, with all who asked. Changes of the same subject, not None, are equal."""

    work: Callable[[Trigger], ChangeResult]
    answers: tuple[Answer, ...]
    trigger: Trigger
    subject: Hashable


def _no_answer(_outcome: ChangeResult) -> None:
    """Nobody waits for it."""


def _answer_all(request: _Request, outcome: ChangeResult) -> None:
    for answer in request.answers:
        answer(outcome)


class ChangeQueue:
    """Carries out changes of one service, one at a time. Any thread may ask."""

    def __init__(self, service: Service, listener: Listener, on_fatal: Callable[[BaseException], None]) -> None:
        self._service = service
        self._listener = listener
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._given_up: Trigger | None = None
        """What had asked for a reload that was given up for a command."""
        self._watch = FileWatcher(service.plan.path, lambda: self.reload("file"), on_fatal)
        self._thread = guarded_thread("changes", self._run, on_fatal)

    def start(self) -> None:
        """Begin to carry out what is asked, and to watch."""
        self._thread.start()
        self._watch.start()

    def stop(self, timeout: float) -> None:
        """Give up what is in flight and begin nothing more; what hangs is left behind after `timeout` seconds."""
        self._watch.stop(timeout)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._service.swaps.stop()
        self._thread.join(timeout)

    def reload(self, trigger: Trigger, answer: Answer = _no_answer) -> None:
        """Have the config file read again."""
        self._enqueue(_Request(self._reload, (answer,), trigger, _RELOAD))

    def swap_model(self, choose: Callable[[Plan], Plan], answer: Answer, subject: Hashable = None) -> None:
        """Have the service go by the plan that `choose` makes of the running one. It may raise EdgemetaError.

        subject: what is chosen, if it is the same for whoever asks again.
        """
        self._enqueue(_Request(lambda _: self._swap_model(choose), (answer,), "command", subject))

    def _enqueue(self, request: _Request) -> None:
        with self._changed:
            equal = next((one for one in self._waiting if one.subject == request.subject is not None), None)
            is_full = len(self._waiting if equal is None else equal.answers) >= WAITING
            if equal is None and request.subject == _RELOAD:
                is_full = False  # the watch tells of a saved file but once
            if equal is not None and not is_full:  # it has not begun, so at its later turn it is what both asked for
                self._waiting.remove(equal)
                trigger = equal.trigger if request.trigger == "file" else request.trigger
                request = replace(request, answers=(*equal.answers, *request.answers), trigger=trigger)
            if not is_full:
                self._service.swaps.cancel("something newer was asked for")
                self._waiting.append(request)
                self._changed.notify_all()
        if is_full:
            what = "changes wait" if equal is None else "wait for the same change"
            _answer_all(request, ChangeResult(False, f"busy: {WAITING} {what} already"))

    def _run(self) -> None:
        was_ok = True
        while (request := self._take()) is not None:
            was_asked_for = request.trigger != "file"
            if was_asked_for:
                self._listener.change_started()
            outcome = request.work(request.trigger)
            if was_asked_for or outcome != NOTHING_CHANGED or not was_ok:
                self._listener.changed(outcome.message)
            was_ok = outcome.ok
            _answer_all(request, outcome)
            self._do_again(request, outcome)

    def _do_again(self, request: _Request, outcome: ChangeResult) -> None:
        """Have a reload that was given up for a command done after all, where that command has come to nothing."""
        if request.subject == _RELOAD:
            self._given_up = request.trigger if outcome.given_up else None
        elif self._given_up is not None:
            trigger, self._given_up = self._given_up, None
            if not outcome.ok:
                self.reload(trigger)

    def _take(self) -> _Request | None:
        """Wait for the next change; None to stop. What is to be remembered is written meanwhile."""
        last_good = self._service.last_good
        while True:
            last_good.write()
            with self._changed:
                patience = WRITES_EVERY if last_good.waiting else None
                if self._changed.wait_for(lambda: self._waiting or self._stopping, patience):
                    break
        with self._changed:
            if self._stopping:
                return None
            self._service.swaps.resume()  # what is newer than this comes after it
            return self._waiting.popleft()

    def _reload(self, trigger: Trigger) -> ChangeResult:
        self._watch.mark_current()
        return reload(self._service.plan.path, self._service, trigger, self._before_swap)

    def _swap_model(self, choose: Callable[[Plan], Plan]) -> ChangeResult:
        try:
            plan = choose(self._service.plan)
        except PlanError as error:
            self._service.report_refused("command", str(error), of_config=False)
            return ChangeResult(False, str(error))
        except EdgemetaError as error:
            return ChangeResult(False, str(error))
        return apply_plan(plan, self._service, "command", self._before_swap, of_config=False)

    def _before_swap(self) -> None:
        """The manager need not wait any more: a swap takes as long as its frames take to come."""
        self._listener.changed("a swap of models begins")
