"""The trials of a study, shared by any number of workers of which each may be killed at any time.

Every choice of bits that is tried has a key. A worker gives a choice a trial, which names key and worker, in one write.
Of a key's trials that have not failed, only the one with the lowest number counts, so two workers that give the same
choice again at the same moment do no harm: the one that finds a lower number than its own gives up. A study of N trials
consists of the first N keys; a worker whose key comes later gives up, too. Whatever is killed between two writes, no
choice is lost and none counts twice.

Workers show that they live by a number in the study that they raise every few seconds. No clocks are compared: a worker
is dead for another one that has seen its number unchanged for the time of a lease, by its own clock.
"""

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from edgemeta.toolchain.errors import SearchError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

KEY, WORKER, SURPLUS = "key", "worker", "surplus"
_ALIVE = "alive:"
_BEATS = 6
"""Signs of life in the time of a lease."""


class Ledger:
    """One worker's view of a study's trials. worker: its name, which no other has."""

    def __init__(
        self,
        storage: "BaseStorage",
        study: int,
        space: Mapping[str, "BaseDistribution"],
        lease: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._storage, self._study, self._space = storage, study, space
        self._lease, self._clock = lease, clock
        self.worker = uuid.uuid4().hex
        self._seen: dict[str, tuple[object, float]] = {}

    def trials(self) -> Sequence["FrozenTrial"]:
        """All trials, by number."""
        return self._storage.get_all_trials(self._study, deepcopy=False)

    def counted(self) -> list["FrozenTrial"]:
        """The finished trials, one for each key, by number."""
        finished: dict[str, FrozenTrial] = {}
        for trial in self.trials():
            if is_done(trial):
                finished.setdefault(trial.user_attrs[KEY], trial)
        return list(finished.values())

    def open_keys(self, limit: int) -> bool:
        """Whether the study has room for another key."""
        return len(_keys(self.trials())) < limit

    def begin(self, key: str, parameters: Mapping[str, int], limit: int) -> int | None:
        """Give a choice a trial; its storage number, or None if another worker's trial or the limit excludes it."""
        from optuna.trial import TrialState, create_trial

        template = create_trial(
            state=TrialState.RUNNING,
            params=dict(parameters),
            distributions=dict(self._space),
            user_attrs={KEY: key, WORKER: self.worker},
        )
        trial_id = self._storage.create_new_trial(self._study, template)
        for trial in self.trials():  # of a call that was repeated, because its answer was lost
            if (
                trial.user_attrs[WORKER] == self.worker
                and trial._trial_id != trial_id
                and not trial.state.is_finished()
            ):
                self.fail(trial._trial_id)
        trials = self.trials()
        own = next(trial for trial in trials if trial._trial_id == trial_id)
        rivals = [each for each in trials if each.user_attrs.get(KEY) == key and not is_failed(each)]
        keys = _keys(trials)
        if any(each.number < own.number for each in rivals) or key in keys[limit:]:
            self._storage.set_trial_user_attr(trial_id, SURPLUS, True)
            self.fail(trial_id)
            return None
        return int(trial_id)

    def finish(self, trial_id: int, values: Sequence[float], *, pruned: bool) -> bool:
        """End a trial with its results; False if another worker had given it up for dead, so that it does not count."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            state = TrialState.PRUNED if pruned else TrialState.COMPLETE
            return bool(self._storage.set_trial_state_values(trial_id, state, values))
        except UpdateFinishedTrialError:  # by another worker, or by this call before, whose answer was lost
            return is_done(self._storage.get_trial(trial_id))

    def fail(self, trial_id: int) -> bool:
        """End a trial that will give no result; False if it has ended already."""
        from optuna.exceptions import UpdateFinishedTrialError
        from optuna.trial import TrialState

        try:
            return bool(self._storage.set_trial_state_values(trial_id, TrialState.FAIL))
        except UpdateFinishedTrialError:
            return False

    def abandoned(self) -> tuple[str, Mapping[str, int]] | None:
        """A key and choice whose trials have all failed, to be given again; trials of dead workers fail by this."""
        trials = self.trials()
        signs = self._storage.get_study_user_attrs(self._study)
        for trial in trials:
            if not trial.state.is_finished() and self._is_dead(trial.user_attrs[WORKER], signs):
                self.fail(trial._trial_id)
        by_key: dict[str, list[FrozenTrial]] = {}
        for trial in self.trials():
            if not trial.user_attrs.get(SURPLUS):
                by_key.setdefault(trial.user_attrs[KEY], []).append(trial)
        for key, some in by_key.items():
            if all(is_failed(trial) for trial in some):
                return key, some[0].params
        return None

    def signs_of_life(self) -> "SignsOfLife":
        """Raises this worker's number as long as it is entered."""
        return SignsOfLife(self._storage, self._study, self.worker, self._lease / _BEATS)

    def _is_dead(self, worker: str, signs: Mapping[str, Any]) -> bool:
        if worker == self.worker:
            return False
        sign, now = signs.get(_ALIVE + worker), self._clock()
        known, since = self._seen.get(worker, (None, now))
        if worker not in self._seen or sign != known:
            self._seen[worker] = sign, now
            return False
        return now - since > self._lease


class SignsOfLife:
    """A thread that raises a worker's number in the study."""

    def __init__(self, storage: "BaseStorage", study: int, worker: str, seconds: float) -> None:
        self._storage, self._study, self._worker, self._seconds = storage, study, worker, seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="signs-of-life", daemon=True)

    def __enter__(self) -> "SignsOfLife":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            with suppress(Exception):  # a server that is away: the next sign may reach it
                self._storage.set_study_user_attr(self._study, _ALIVE + self._worker, number)
            self._ended.wait(self._seconds)


def is_failed(trial: "FrozenTrial") -> bool:
    """Whether a trial ended without a result."""
    from optuna.trial import TrialState

    return bool(trial.state == TrialState.FAIL)


def is_done(trial: "FrozenTrial") -> bool:
    """Whether a trial ended with a result, or was stopped because it was among the worse ones."""
    from optuna.trial import TrialState

    return trial.state in (TrialState.COMPLETE, TrialState.PRUNED)


def _keys(trials: Sequence["FrozenTrial"]) -> list[str]:
    """Keys in the order of their first trials, without those that came too late."""
    return list(dict.fromkeys(trial.user_attrs[KEY] for trial in trials if not trial.user_attrs.get(SURPLUS)))


def open_study(storage: "BaseStorage", name: str, directions: Sequence[str], digest: str) -> int:
    """The number of the study of a name, made if there is none. Raises SearchError if it is another search's."""
    from optuna.exceptions import DuplicatedStudyError
    from optuna.study import StudyDirection

    wanted = [StudyDirection.MAXIMIZE if each == "maximize" else StudyDirection.MINIMIZE for each in directions]
    try:
        number = storage.create_new_study(wanted, name)
    except DuplicatedStudyError:
        number = storage.get_study_id_from_name(name)
    found = storage.get_study_user_attrs(number).get("search")
    if found is None and not storage.get_all_trials(number, deepcopy=False):
        storage.set_study_user_attr(number, "search", digest)
    elif found != digest:
        raise SearchError(
            f"the study {name!r} was begun with other settings, expected those: give the search another name"
        )
    return int(number)
