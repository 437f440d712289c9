"""Carries out the orders of rollouts, one at a time: fetch the model, try it as in every swap, keep it, and say so.

An order says what is to be, not what to do. So it may come again at every connect: what is in use already is done, what
has failed is not tried again, and what a kill interrupted is started again.
"""

import hashlib
import logging
import queue
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from edgemeta.daemon.collect.limited_command import PYTHON, WAITED_FOR, Limits, run_limited
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.error_text import reason_of
from edgemeta.daemon.config.loader import ConfigFile
from edgemeta.daemon.messages.rollouts import Progress, RolloutCommand, RolloutState, WantedModel
from edgemeta.daemon.messages.service import ModelUpdate
from edgemeta.daemon.mqtt.model_parts import ModelParts, PartsError
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.service.change_result import Answer, ChangeResult
from edgemeta.daemon.service.plan import InUse, Plan, replan
from edgemeta.daemon.service.rollout_store import STARTS, RolloutStore, with_values
from edgemeta.model.errors import EdgemetaError

log = logging.getLogger(__name__)

AGAIN_AFTER = 2.0
"""Seconds until a swap is begun again that a newer change has cancelled."""
TELLS_EVERY = 10
"""Percent between two reports of how much is fetched."""
MAX_MEMORY_MB = 256
"""Of the process that downloads."""
NO_CAMERA = "every camera has a model of its own, expected one that uses the device's"


class Changes(Protocol):
    """The queue of changes."""

    def swap_model(self, choose: Callable[[Plan], Plan], answer: Answer, subject: Hashable = None) -> None:
        """Request that the plan which `choose` derives from the running one is applied."""


@dataclass(frozen=True)
class _Job:
    order: RolloutCommand
    answer: Answer
    by_person: bool


class Rollouts:
    """Any thread may call. changed: called when `state` has changed."""

    def __init__(
        self, in_use: InUse, parts: ModelParts, changed: Callable[[], None], on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._in_use, self._parts, self._changed = in_use, parts, changed
        config = in_use.plan.base
        self._store = RolloutStore.of(config)
        accepts = config.swap.rollouts
        self.state: RolloutState | None = None
        if accepts != "refuse":
            self.state = RolloutState(accepts=accepts, keys=config.swap.rollout_keys, values=in_use.plan.values)
        self._last: RolloutCommand | None = None
        if self.state is not None and (order := self._store.read().accepted) is not None and self._is_in_use(order):
            self.state = self._state(self.state, order, "done")
        self._jobs = queue.SimpleQueue[_Job | None]()
        self._cancelled = threading.Event()
        self._stopping = False
        self._changes: Changes | None = None
        self._thread = guarded_thread("rollouts", self._run, on_fatal)

    def start(self, changes: Changes) -> None:
        """Start to carry out orders, where the config allows them."""
        self._changes = changes
        if self.state is not None:
            self._thread.start()

    def stop(self, timeout: float) -> None:
        """End what is fetched; what is tried ends with the changes."""
        self._stopping = True
        self._cancelled.set()
        self._jobs.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def order(self, order: RolloutCommand, answer: Answer, by_person: bool = False) -> None:
        """Carry out an order, instead of one that is being fetched. by_person: whether somebody installs it now."""
        own = self._in_use.plan.base.device
        if order.device != own:
            answer(ChangeResult(False, f"found an order for the device {order.device!r}, expected {own!r}"))
            return
        self._cancelled.set()
        self._jobs.put(_Job(order, answer, by_person))

    @property
    def installable(self) -> RolloutCommand | None:
        """The order of a model that is offered or has failed, so that somebody may install it."""
        is_open = self.state is not None and self.state.state in ("offered", "fetching", "trying", "failed")
        return self._last if is_open else None

    @property
    def as_update(self) -> ModelUpdate:
        """How the order gets on, as an update of the model."""
        state = self.state
        if state is None:
            return ModelUpdate()
        return ModelUpdate(
            summary=f"Of the rollout {state.rollout}.",
            in_progress=state.state in ("fetching", "trying"),
            percentage=state.percentage,
            failed=state.reason,
        )

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._cancelled.clear()
            if not self._jobs.empty():  # a newer order waits
                job.answer(ChangeResult(False, "replaced by a newer order", cancelled=True))
                continue
            self._last = job.order
            job.answer(self._carried_out(job))

    def _carried_out(self, job: _Job) -> ChangeResult:
        order, kept = job.order, self._store.read()
        if self._is_in_use(order):
            return self._accepted(order)
        if kept.tried == order and kept.failed is not None and not job.by_person:
            return self._failed(order, kept.failed, is_new=False)
        is_offer = self.state is not None and self.state.accepts == "offer" and not self._has_model(order)
        if is_offer and not job.by_person:
            self._say(order, "offered")
            return ChangeResult(True, "offered: it waits for somebody who installs it")
        try:
            reason = self._obstacle(order)
            if reason is not None:
                return self._failed(order, reason)
            if order.model is not None:
                self._get(order, order.model)
            if self._store.begin(order) > STARTS:
                return self._failed(order, f"the service ended {STARTS} times while it was tried")
            outcome = self._swapped(order)
        except (EdgemetaError, OSError) as error:
            if self._cancelled.is_set():
                return ChangeResult(False, "cancelled", cancelled=True)
            return self._failed(order, str(error) if isinstance(error, EdgemetaError) else reason_of(error))
        if outcome.cancelled:
            self._store.end(order, None)
            return outcome
        return self._accepted(order) if outcome.ok else self._failed(order, outcome.message)

    def _is_in_use(self, order: RolloutCommand) -> bool:
        return self._in_use.plan.values == order.values and self._has_model(order)

    def _has_model(self, order: RolloutCommand) -> bool:
        """Whether the cameras without a model of their own have the ordered one, or the config's if that is ordered."""
        plan = self._in_use.plan
        if order.model is None:
            accepted = self._store.read().accepted
            return accepted is None or accepted.model is None
        shared = [plan.loaded_models[name] for name, camera in plan.base.cameras.items() if camera.model is None]
        return bool(shared) and all(loaded.identity.sha256 == order.model.sha256 for loaded in shared)

    def _obstacle(self, order: RolloutCommand) -> str | None:
        """Why an order cannot be carried out here."""
        config = self._in_use.plan.base
        if order.model is None:
            return None
        if all(camera.model is not None for camera in config.cameras.values()):
            return NO_CAMERA
        if config.trust.public_key_files and order.model.signature is None:
            return "the model has no signature, expected one by a key of `trust.public_key_files`"
        return None

    def _get(self, order: RolloutCommand, model: WantedModel) -> None:
        """Have the file here. Raises EdgemetaError, OSError."""
        if not self._store.has(model):
            self._say(order, "fetching", percentage=0)
            log.info("rollout %s: fetching %s", order.rollout, model.name)
            self._fetch(order, model)
        self._store.sign(model)

    def _fetch(self, order: RolloutCommand, model: WantedModel) -> None:
        told, timeout = 0, self._in_use.plan.base.swap.update_timeout

        def tell(done: int, size: int) -> None:
            nonlocal told
            percentage = 100 * done // size
            if percentage >= told + TELLS_EVERY:
                told = percentage
                self._say(order, "fetching", percentage=min(100, percentage))

        def hear(line: str) -> None:
            if line.endswith("%"):
                tell(int(line.removesuffix("%")), 100)
            elif line:
                self._say(order, "fetching", percentage=told, reason=line)

        if model.address is None:
            whole = self._parts.read(model, timeout, self._cancelled, tell)
        else:
            whole = self._download(model, model.address, timeout, hear)
        if (found := hashlib.sha256(whole).hexdigest()) != model.sha256:
            raise PartsError(f"{model.name}: is another file, with the SHA-256 {found}, expected {model.sha256}")
        self._store.put(model, whole)

    def _download(self, model: WantedModel, address: str, timeout: float, hear: Callable[[str], None]) -> bytes:
        part = self._store.part_of(model)
        command = (*PYTHON, "-m", "edgemeta.model.http_file", address, str(model.size), str(part))
        limits = Limits(timeout, "`swap.update_timeout`", MAX_MEMORY_MB, "the limit in megabytes", WAITED_FOR)
        run_limited(command, limits, self._cancelled, hear)
        content = part.read_bytes()
        part.unlink()
        return content

    def _swapped(self, order: RolloutCommand) -> ChangeResult:
        """Try the model on live frames; a trial that another change cancelled is begun again. Raises EdgemetaError."""
        assert self._changes is not None
        while True:
            self._say(order, "trying")
            outcomes = queue.SimpleQueue[ChangeResult]()
            subject = ("rollout", order.rollout, order.model)
            self._changes.swap_model(lambda running: self._plan(order, running), outcomes.put, subject)
            outcome = self._wait(outcomes)
            if not outcome.cancelled or self._stopping or self._cancelled.wait(AGAIN_AFTER):
                return outcome

    def _wait(self, outcomes: "queue.SimpleQueue[ChangeResult]") -> ChangeResult:
        while not self._stopping:
            try:
                return outcomes.get(timeout=1.0)
            except queue.Empty:
                continue
        return ChangeResult(False, "the service stopped", cancelled=True)

    def _plan(self, order: RolloutCommand, running: Plan) -> Plan:
        """The running plan with the ordered model and values; other values are as in a reload. Raises EdgemetaError."""
        has_model, has_values = self._has_model(order), order.values == running.values
        fresh = running.base
        if not has_values or (order.model is None and not has_model):
            fresh = with_values(ConfigFile(running.path, Config), running.base.swap.rollout_keys, order.values)
        model = running.base.model if has_model else fresh.model
        if order.model is not None and not has_model:
            model = self._store.address_of(order.model)
        config = running.base if has_values else fresh
        return replan(config.model_copy(update={"model": model}), running, values=order.values)

    def _accepted(self, order: RolloutCommand) -> ChangeResult:
        try:
            if self._store.read().accepted != order:
                self._store.accept(order)
        except OSError as error:
            return self._failed(order, f"in use, but not kept for the next start: {reason_of(error)}")
        self._say(order, "done")
        return ChangeResult(True, "in use")

    def _failed(self, order: RolloutCommand, reason: str, is_new: bool = True) -> ChangeResult:
        reason = reason.removeprefix("config not reloaded, nothing changed: ")
        if is_new:
            log.error("rollout %s failed here: %s", order.rollout, reason)
            try:
                self._store.end(order, reason)
            except OSError as error:
                log.warning("rollout %s: not kept that it failed: %s", order.rollout, reason_of(error))
        self._say(order, "failed", reason=reason)
        return ChangeResult(False, reason)

    def _say(self, order: RolloutCommand, state: Progress, **more: Any) -> None:
        if self.state is not None and (said := self._state(self.state, order, state, **more)) != self.state:
            self.state = said
            self._changed()

    def _state(self, before: RolloutState, order: RolloutCommand, state: Progress, **more: Any) -> RolloutState:
        sha256, values = None if order.model is None else order.model.sha256, self._in_use.plan.values
        more |= {"accepts": before.accepts, "keys": before.keys, "values": values}
        return RolloutState(rollout=order.rollout, sha256=sha256, state=state, **more)
