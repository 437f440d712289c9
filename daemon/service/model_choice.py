"""The command `model`: which model it chooses, and how one of the registry comes into the folder before.

A file in the folder is replaced only when a newer one is whole, and put back if that one fails on live frames.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.error_text import reason_of
from edgemeta.daemon.messages.commands import ModelCommand
from edgemeta.daemon.service.change_queue import ChangeQueue
from edgemeta.daemon.service.change_result import Answer, ChangeResult
from edgemeta.daemon.service.model_fetcher import ModelFetcher
from edgemeta.daemon.service.model_folder import SUFFIX, ModelFolder, chosen_name, known_by_name
from edgemeta.daemon.service.plan import InUse, Plan, replan
from edgemeta.daemon.service.rollouts import Rollouts
from edgemeta.daemon.service.settings import CommandError
from edgemeta.model.address import Address
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.known.registry import KnownNetwork
from edgemeta.model.small_file import exists, is_file, shortened
from edgemeta.model.zoo import names


class ModelChoice:
    """Carries out the command. Any thread may call."""

    def __init__(
        self, changes: ChangeQueue, in_use: InUse, folder: ModelFolder, fetcher: ModelFetcher, rollouts: Rollouts
    ) -> None:
        self._changes, self._in_use, self._folder, self._fetcher = changes, in_use, folder, fetcher
        self._rollouts = rollouts

    def use(self, command: ModelCommand, answer: Answer) -> None:
        """Swap to a model; one that only the registry has is fetched before. Answers when it is done, or cannot be.

        An update installs what a rollout orders, if that is not in use.
        """
        order = self._rollouts.installable if command.update and command.camera is None else None
        if order is not None:
            self._rollouts.order(order, answer, by_person=True)
            return
        try:
            network = self._to_fetch(command)
        except CommandError as error:
            self._fetcher.refuse(Address.parse(command.model).place.removesuffix(SUFFIX), str(error))
            answer(ChangeResult(False, str(error)))
            return
        if network is not None:
            self._fetch(command, network, answer)
            return
        self._changes.swap_model(
            lambda running: replan(with_model(running.base, command), running), answer, (command.model, command.camera)
        )

    def _to_fetch(self, command: ModelCommand) -> KnownNetwork | None:
        """Return the network to fetch; None where the model is here. Raises CommandError if it must not be fetched."""
        plan = self._in_use.plan
        config, address = plan.config, Address.parse(command.model)
        name = address.place.removesuffix(SUFFIX)
        network = None if name in names() or config.swap.model_folder is None else known_by_name(config, name)
        if network is None or address.sha256 not in (None, network.made().digest):
            return None
        file = Path(config.swap.model_folder or "") / f"{name}{SUFFIX}"
        wanted = not exists(file)
        if command.update:
            cameras = [camera for camera in config.cameras if chosen_name(config.model_of(camera)) == name]
            offers = [
                self._folder.available(config, config.model_of(each), plan.loaded_models[each]) for each in cameras
            ]
            wanted = any(offer.network is not None and offer.is_newer for offer in offers)
        if wanted and config.swap.updates != "download":
            raise CommandError(
                f"{name} is not fetched, since `swap.updates` is `{config.swap.updates}`, expected `download`, or: "
                f"edgemeta model get {name} --out {file}"
            )
        return network if wanted else None

    def _fetch(self, command: ModelCommand, network: KnownNetwork, answer: Answer) -> None:
        name = Address.parse(command.model).place.removesuffix(SUFFIX)

        def finish(outcome: ChangeResult) -> None:
            self._fetcher.end(name, None if outcome.ok else outcome.message)
            answer(outcome)

        def fetched(content: bytes | None, reason: str | None) -> None:
            if content is None:
                finish(ChangeResult(False, f"{name} was not fetched: {reason}"))
                return
            place = _Placed(content, self._changes.wrote)
            self._changes.swap_model(lambda running: place.plan(running, command, name), place.settled(finish))

        refused = self._fetcher.start(name, network, self._in_use.plan.config, fetched)
        if refused is not None:
            answer(ChangeResult(False, refused))


class _Placed:
    """A model file that takes its place in the folder, and leaves it again if it is not used."""

    def __init__(self, content: bytes, wrote: Callable[[Path], None]) -> None:
        self._content, self._wrote = content, wrote
        self._file: Path | None = None
        self._before: bytes | None = None

    def plan(self, running: Plan, command: ModelCommand, name: str) -> Plan:
        """Put the file into the folder; return the plan that uses it. Raises EdgemetaError."""
        folder = running.base.swap.model_folder
        if folder is None:
            raise CommandError("the config no longer names a `swap.model_folder`")
        file = Path(folder) / f"{name}{SUFFIX}"
        try:
            self._before = file.read_bytes() if exists(file) else None
            write_atomically(file, self._content)
        except OSError as error:
            raise CommandError(f"{file}: cannot be written: {reason_of(error)}") from error
        self._file = file
        self._wrote(file)
        return replan(with_model(running.base, command), running)

    def settled(self, answer: Answer) -> Answer:
        """Return the answer, before which the earlier file is put back if the new one is not in use."""

        def settle(outcome: ChangeResult) -> None:
            answer(outcome if outcome.ok or self._file is None else self._put_back(self._file, outcome))

        return settle

    def _put_back(self, file: Path, outcome: ChangeResult) -> ChangeResult:
        try:
            if self._before is None:
                file.unlink(missing_ok=True)
            else:
                write_atomically(file, self._before)
        except OSError as error:
            return replace(outcome, message=f"{outcome.message}; {file} could not be put back: {reason_of(error)}")
        self._wrote(file)
        return outcome


def with_model(running: Config, command: ModelCommand) -> Config:
    """Return the running config with the model of a command. Raises CommandError where it is not allowed."""
    if running.swap.model_folder is None:
        raise CommandError("models cannot be chosen by command: the config names no `swap.model_folder`")
    model = _allowed(Path(running.swap.model_folder), command.model)
    if command.camera is None:
        return running.model_copy(update={"model": model})
    if command.camera not in running.cameras:
        raise CommandError(f"found camera {command.camera!r}, expected one of {', '.join(running.cameras)}")
    camera = running.cameras[command.camera].model_copy(update={"model": model})
    return running.model_copy(update={"cameras": running.cameras | {command.camera: camera}})


def _allowed(folder: Path, name: str) -> str:
    """Return the name of a shipped model, or the path of a file in the folder; a link must not lead out of it."""
    address = Address.parse(name)
    if address.place in names():
        return name
    for file in (folder / address.place, folder / f"{address.place}{SUFFIX}"):
        if is_file(file):
            if not file.resolve().is_relative_to(folder.resolve()):
                raise CommandError(f"found model {name!r}, a link that leads out of {folder}, expected a file in it")
            return str(replace(address, place=str(file)))
    raise CommandError(f"found model {shortened(name)!r}, expected a shipped model's name or a file in {folder}")
