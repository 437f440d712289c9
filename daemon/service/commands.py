"""Receives commands, has them carried out and answers them. Every payload is validated first.

A retained command other than `rollout` is ignored: it would be carried out again at every connection. Answers are sent
only below the device's own topics: a sender who may only write to `cmd/` could otherwise make the service publish
anywhere.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import TypeVar

from pydantic import ValidationError

from edgemeta.daemon.config.config import RESERVED
from edgemeta.daemon.config.error_text import expected, shown
from edgemeta.daemon.inference.pipeline import Identity
from edgemeta.daemon.messages.channels import ANSWER
from edgemeta.daemon.messages.command_payload import Payload
from edgemeta.daemon.messages.commands import Command, ModelCommand, ReloadCommand, RestartCommand, SetCommand
from edgemeta.daemon.messages.rollouts import RolloutCommand
from edgemeta.daemon.messages.service import AnswerMessage
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.daemon.service.change_queue import ChangeQueue
from edgemeta.daemon.service.change_result import Answer, ChangeResult
from edgemeta.daemon.service.model_choice import ModelChoice
from edgemeta.daemon.service.rollouts import Rollouts
from edgemeta.daemon.service.settings import CommandError, changed_settings

log = logging.getLogger(__name__)

LONGEST_RESPONSE_TOPIC = 256
"""Most characters of a response topic."""

AnyCommand = TypeVar("AnyCommand", bound=Command)


class Commands:
    """Has commands carried out by the change queue. One method per command, called for messages on its topic."""

    def __init__(
        self,
        changes: ChangeQueue,
        models: ModelChoice,
        rollouts: Rollouts,
        publisher: Publisher,
        identity: Identity,
        base: str,
        cameras: Collection[str],
        restart: Callable[[], None],
    ) -> None:
        self._changes, self._models, self._rollouts = changes, models, rollouts
        self._publisher = publisher
        self._identity = identity
        self._restart = restart
        self._own = f"{base}/{identity.device}/"
        self._taken = {*RESERVED, *cameras} - {"resp"}

    def reload(self, message: Incoming) -> None:
        """Reload the config; answers when it is done, at once where the command is invalid."""
        command = self._read(ReloadCommand, message, "reload")
        if command is not None:
            self._changes.reload("command", self._answer_to(message, "reload", command))

    def model(self, message: Incoming) -> None:
        """Swap in another model; answers when it is done, at once where the command is invalid."""
        command = self._read(ModelCommand, message, "model")
        if command is not None:
            self._models.use(command, self._answer_to(message, "model", command))

    def set(self, message: Incoming) -> None:
        """Change settings of cameras; answers when it is done, at once where the command is invalid."""
        command = self._read(SetCommand, message, "set")
        if command is not None:
            self._changes.set_settings(
                lambda running: changed_settings(running.settings, running.base, command),
                self._answer_to(message, "set", command),
            )

    def restart(self, message: Incoming) -> None:
        """Restart the service if the config file can be used; answers before, or with its first mistake."""
        command = self._read(RestartCommand, message, "restart")
        if command is not None:
            self._changes.restart(self._restart, self._answer_to(message, "restart", command))

    def rollout(self, message: Incoming) -> None:
        """Carry out the order of a rollout, which is retained; answers when it is done, or has failed."""
        command = self._read(RolloutCommand, message, "rollout", may_be_retained=True)
        if command is not None:
            self._rollouts.order(command, self._answer_to(message, "rollout", command))

    def refuse(self, message: Incoming, reason: str) -> None:
        """Answer a command that exceeds the rate limit; it is not carried out."""
        if not message.retained:
            verb = message.topic.rpartition("/")[2]
            self._answer(message, verb, Payload(message.payload).transaction, _no(f"too many commands: {reason}"))

    def _read(
        self, kind: type[AnyCommand], message: Incoming, verb: str, may_be_retained: bool = False
    ) -> AnyCommand | None:
        """Parse a command; an invalid one is answered, and None returned."""
        if message.retained and not may_be_retained:
            log.warning("the retained message on %s is ignored: commands must not be retained", message.topic)
            return None
        payload = Payload(message.payload)
        try:
            if payload.mistake is not None:
                raise CommandError(f"the payload: {payload.mistake}, expected an object or nothing")
            command = _validated(kind, payload.value)
        except CommandError as error:
            log.warning("command %s refused: %s", verb, error)
            self._answer(message, verb, payload.transaction, _no(str(error)))
            return None
        log.info("command %s: %s", verb, command.model_dump_json(exclude_none=True))
        return command

    def _answer_to(self, message: Incoming, verb: str, command: Command) -> Answer:
        question = replace(message, payload=b"")  # the payload may be long, and the answer may take long
        return lambda outcome: self._answer(question, verb, command.transaction, outcome)

    def _answer(self, question: Incoming, verb: str, transaction: str | None, outcome: ChangeResult) -> None:
        elsewhere = question.response_topic
        is_ours = elsewhere is None or self._may_answer_on(elsewhere)
        answer = AnswerMessage(
            device=self._identity.device,
            boot=self._identity.boot,
            verb=verb,
            ok=outcome.ok,
            outcome=outcome.message if is_ours else f"{outcome.message} ({self._answered_here})",
            transaction=transaction,
        )
        outgoing = self._publisher.encode(ANSWER, answer, verb=verb)
        topic = elsewhere if elsewhere is not None and is_ours else outgoing.topic
        self._publisher.send(replace(outgoing, topic=topic, correlation=question.correlation))

    @property
    def _answered_here(self) -> str:
        return f"answered here: a response topic must be below {self._own} and none of the service's own topics"

    def _may_answer_on(self, topic: str) -> bool:
        """Whether a response topic is a plain topic below the device's that the service does not use itself."""
        below = topic.removeprefix(self._own)
        return (
            topic.startswith(self._own)
            and below != ""
            and below.partition("/")[0] not in self._taken
            and len(topic) <= LONGEST_RESPONSE_TOPIC
            and topic.isprintable()
            and not set("+#") & set(topic)
        )


def _no(reason: str) -> ChangeResult:
    return ChangeResult(False, reason)


def _validated(kind: type[AnyCommand], value: object) -> AnyCommand:
    """Validate a JSON value as a command. Raises CommandError with its first mistake."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise CommandError(_first_mistake(kind, error)) from None


def _first_mistake(kind: type[Command], error: ValidationError) -> str:
    """Return a sentence about the first mistake of a command."""
    detail = error.errors(include_url=False)[0]
    place = ".".join(ascii(step)[1:-1] for step in detail["loc"] if isinstance(step, str))
    match detail["type"]:
        case "missing":
            found = "nothing"
        case "extra_forbidden":
            return f"{place[:80]}: found an unknown field, expected one of {', '.join(sorted(kind.model_fields))}"
        case _:
            found = shown(detail["input"])
    return f"{place or 'the payload'}: found {found}, expected {expected(detail)}"
