"""Commands as anybody may send them: obeyed, answered where that is right, or refused in one sentence."""

import json
import random
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.inference.pipeline import Identity
from edgemeta.daemon.messages.channels import Topics
from edgemeta.daemon.messages.commands import ModelCommand
from edgemeta.daemon.messages.service import AnswerMessage
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.publisher import Publisher
from edgemeta.daemon.mqtt.subscriptions import Incoming
from edgemeta.daemon.service.change_result import Answer, ChangeResult
from edgemeta.daemon.service.commands import CommandError, Commands
from edgemeta.daemon.service.model_choice import ModelChoice, with_model

DONE = ChangeResult(True, "done")


class Asked:
    """A change queue that does nothing and reports success."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def reload(self, trigger: str, answer: Answer) -> None:
        self.asked.append("reload")
        answer(DONE)

    def swap_model(self, choose: Callable[..., Any], answer: Answer, subject: object) -> None:
        self.asked.append("model")
        answer(DONE)


class Sent:
    """A link that records what is sent."""

    connected = True

    def __init__(self) -> None:
        self.messages: list[OutgoingMessage] = []

    def send(self, message: OutgoingMessage) -> None:
        self.messages.append(message)


class Rig:
    def __init__(self) -> None:
        self.asked, self.sent, self.restarts = Asked(), Sent(), threading.Event()
        publisher = Publisher(self.sent, Topics("b", "d"), 1)  # type: ignore[arg-type]
        in_use = SimpleNamespace(plan=SimpleNamespace(config=config()))
        rollouts: Any = SimpleNamespace(installable=None)
        models = ModelChoice(self.asked, in_use, None, None, rollouts)  # type: ignore[arg-type]
        who = Identity("d", "0" * 32)
        self.commands = Commands(self.asked, models, rollouts, publisher, who, "b", ["front"], self.restarts.set)  # type: ignore[arg-type]

    def send(self, verb: str, payload: bytes, **more: Any) -> list[OutgoingMessage]:
        """Send a command; returns the answers."""
        before = len(self.sent.messages)
        getattr(self.commands, verb)(Incoming(f"b/d/cmd/{verb}", payload, **more))
        return self.sent.messages[before:]


@pytest.fixture
def rig() -> Rig:
    return Rig()


def answer_of(message: OutgoingMessage) -> AnswerMessage:
    return AnswerMessage.model_validate_json(message.payload)


def test_an_answer_goes_to_its_topic_with_the_transaction(rig: Rig) -> None:
    (sent,) = rig.send("reload", b'{"transaction": "42"}')
    assert (sent.topic, sent.qos, sent.retain, sent.correlation) == ("b/d/resp/reload", 1, False, None)
    answer = answer_of(sent)
    assert (answer.verb, answer.ok, answer.outcome, answer.transaction) == ("reload", True, "done", "42")


def test_an_empty_payload_is_a_plain_reload(rig: Rig) -> None:
    (sent,) = rig.send("reload", b"")
    assert answer_of(sent).transaction is None
    assert rig.asked.asked == ["reload"]


@pytest.mark.parametrize("topic", ["b/d/resp/me", "b/d/resp/reload", "b/d/me/answers", "b/d/x", "b/d/" + "a" * 252])
def test_a_response_topic_is_answered_on_with_its_mark(rig: Rig, topic: str) -> None:
    (sent,) = rig.send("model", b'{"model": "m"}', response_topic=topic, correlation=b"\0x")
    assert (sent.topic, sent.correlation) == (topic, b"\0x")
    assert answer_of(sent).outcome == "done"


@pytest.mark.parametrize(
    "topic",
    [
        *("b/d/availability", "b/d/info", "b/d/stats", "b/d/swap", "b/d/front/frame", "b/d/front", "b/d/cmd/reload"),
        *(
            "homeassistant/device/d/config",
            "me/answers",
            "b/other/cmd/reload",
            "b/other/resp/x",
            "b/d",
            "b/d/",
            "$SYS/x",
        ),
        *("b/d/a/#", "b/d/+/a", "a/#", "b/d/a\nb", "b/d/" + "a" * 253, "", "b/dx/resp", "b/d/../x\0"),
    ],
)
def test_response_topics_outside_of_the_device_are_refused(rig: Rig, topic: str) -> None:
    (sent,) = rig.send("reload", b'{"transaction": "7"}', response_topic=topic, correlation=b"1")
    assert (sent.topic, sent.correlation) == ("b/d/resp/reload", b"1")
    answer = answer_of(sent)
    assert (answer.ok, answer.transaction) == (True, "7")
    assert answer.outcome == (
        "done (answered here: a response topic must be below b/d/ and none of the service's own topics)"
    )


def test_a_retained_command_is_ignored(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    assert rig.send("reload", b"", retained=True) == []
    assert rig.asked.asked == []
    assert "must not be retained" in caplog.text


@pytest.mark.parametrize(
    ("verb", "payload", "reason"),
    [
        ("model", b"", "model: found nothing, expected this key to be given"),
        ("model", b"resnet8", "the payload: found no JSON, expected an object or nothing"),
        ("model", b'{"model": 5}', "model: found 5, expected text"),
        (
            "model",
            b'{"model": "../../etc/passwd"}',
            "model: found the text '../../etc/passwd', expected a name of letters",
        ),
        ("model", b'{"model": "/dev/video0"}', "model: found the text '/dev/video0', expected a name of letters"),
        ("model", b'{"model": ".hidden"}', "model: found the text '.hidden', expected a name of letters"),
        (
            "model",
            b'{"model": "m", "path": "/"}',
            "path: found an unknown field, expected one of camera, model, transaction",
        ),
        (
            "model",
            b'{"model": "m", "camera": "' + b"x" * 65 + b'"}',
            f"camera: found the text '{'x' * 57}...', expected at most 64 characters",
        ),
        (
            "reload",
            b'{"transaction": "' + b"x" * 65 + b'"}',
            f"transaction: found the text '{'x' * 57}...', expected at most 64 characters",
        ),
        ("reload", b"[" * 60_000, "the payload: found no JSON, expected an object or nothing"),
        ("reload", b"\xff", "the payload: found no JSON, expected an object or nothing"),
        ("reload", b"null", "the payload: found null, expected a mapping"),
        ("reload", b'[{"transaction": "7"}]', "the payload: found a list, expected a mapping"),
        (
            "reload",
            b'{"transaction": "a", "transaction": "b"}',
            "the payload: found no JSON (the key 'transaction' twice)",
        ),
        (
            "model",
            b'{"model": "a", "model": "b"}',
            "the payload: found no JSON (the key 'model' twice), expected an obj",
        ),
        ("model", b'{"model": {"a": 1, "a": 2}}', "the payload: found no JSON (the key 'a' twice), expected an object"),
        ("model", b'{"model": NaN}', "the payload: found no JSON (NaN), expected an object or nothing"),
        ("model", b'{"model": -Infinity}', "the payload: found no JSON (-Infinity), expected an object or nothing"),
        ("model", b'{"model": [Infinity]}', "the payload: found no JSON (Infinity), expected an object or nothing"),
        ("reload", b"NaN", "the payload: found no JSON (NaN), expected an object or nothing"),
        ("model", b'{"model": ' + b"9" * 10_000 + b"}", "model: found inf, expected text"),
        ("reload", b'{"transaction": "\\ud800"}', "transaction: found the text '\\ud800', expected Unicode text"),
        (
            "reload",
            '{"transaction": "7"}'.encode("utf-16"),
            "the payload: found no JSON, expected an object or nothing",
        ),
        ("reload", b"\xef\xbb\xbf{}", "the payload: found no JSON, expected an object or nothing"),
    ],
)
def test_an_invalid_command_is_refused_in_one_sentence(rig: Rig, verb: str, payload: bytes, reason: str) -> None:
    (sent,) = rig.send(verb, payload)
    answer = answer_of(sent)
    assert not answer.ok
    assert answer.outcome.startswith(reason)
    assert answer.outcome.isprintable()
    assert rig.asked.asked == []


@pytest.mark.parametrize(
    "payload",
    [
        b'{"transaction": "42", "model": 5}',
        b'{"transaction": "42"}',
        b'{"transaction": "42", "model": "m", "path": "/"}',
        b'{"transaction": "42", "model": "../m"}',
        b'{"transaction": "42", "model": NaN}',
        b'{"model": "a", "model": "b", "transaction": "42"}',
    ],
)
def test_the_transaction_is_returned_with_every_error(rig: Rig, payload: bytes) -> None:
    (sent,) = rig.send("model", payload)
    answer = answer_of(sent)
    assert (answer.ok, answer.transaction) == (False, "42")
    assert rig.asked.asked == []


@pytest.mark.parametrize(
    "payload",
    [
        b'{"transaction": 42}',
        b'{"transaction": "a", "transaction": "b"}',
        b'{"transaction": "\\udc00"}',
        b'{"transaction": "' + b"x" * 65 + b'"}',
        b'{"transaction": "42"',
    ],
)
def test_an_invalid_transaction_is_not_returned(rig: Rig, payload: bytes) -> None:
    (sent,) = rig.send("reload", payload)
    assert answer_of(sent).transaction is None


def test_one_of_too_many_is_answered_with_its_transaction_and_not_carried_out(rig: Rig) -> None:
    rig.commands.refuse(
        Incoming("b/d/cmd/model", b'{"transaction": "42"}', response_topic="b/d/resp/me"), "at most 5 per second"
    )
    rig.commands.refuse(Incoming("b/d/cmd/model", b"", retained=True), "at most 5 per second")
    (sent,) = rig.sent.messages
    answer = answer_of(sent)
    assert (sent.topic, answer.verb, answer.transaction) == ("b/d/resp/me", "model", "42")
    assert (answer.ok, answer.outcome) == (False, "too many commands: at most 5 per second")
    assert rig.asked.asked == []


@given(payload=st.binary(max_size=200), verb=st.sampled_from(["reload", "model"]))
def test_any_bytes_get_one_answer(payload: bytes, verb: str) -> None:
    rig = Rig()
    (sent,) = rig.send(verb, payload)
    assert answer_of(sent).outcome.isprintable()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(), below, max_size=3),
    max_leaves=8,
)


@given(values=st.dictionaries(st.sampled_from(["model", "camera", "transaction", "x\n"]), json_values, max_size=4))
def test_any_json_gets_one_answer(values: dict[str, Any]) -> None:
    rig = Rig()
    (sent,) = rig.send("model", json.dumps(values).encode())
    assert answer_of(sent).outcome.isprintable()


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_fifty_thousand_damaged_commands(rig: Rig, fed: Callable[[str, int], None]) -> None:
    chance = random.Random(7)
    good = b'{"model": "resnet8-cifar10", "camera": "front", "transaction": "1"}'
    for _ in range(50_000):
        payload = bytearray(good)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(len(payload) + 1)
            payload[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        (sent,) = rig.send(chance.choice(["model", "reload"]), bytes(payload))
        assert answer_of(sent).outcome.isprintable()
    fed("commands", 50_000)


def config(**keys: Any) -> Config:
    return Config.model_validate({"device": "d", "cameras": {"front": {"source": "synthetic://"}}, **keys})


def test_which_models_may_be_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.safetensors").touch()
    (folder / "other").touch()
    (folder / "deeper").mkdir()
    (tmp_path / "secret").touch()
    running = config(swap={"model_folder": str(folder)})

    def chosen(name: str, **more: Any) -> Config:
        return with_model(running, ModelCommand(model=name, **more))

    assert chosen("mine").model == chosen("mine.safetensors").model == str(folder / "mine.safetensors")
    assert chosen("other").model == str(folder / "other")
    assert chosen("resnet8-cifar10").model == "resnet8-cifar10"
    mark = f"@sha256:{'0a' * 32}"
    assert chosen(f"mine{mark}").model == f"{folder / 'mine.safetensors'}{mark}"
    assert chosen(f"resnet8-cifar10{mark}").model == f"resnet8-cifar10{mark}"
    assert chosen("mine", camera="front").cameras["front"].model == str(folder / "mine.safetensors")
    assert chosen("mine", camera="front").model == running.model
    for name in ("secret", "deeper", "none", "resnet8-cifar10-float"):
        with pytest.raises(CommandError, match=r"expected a shipped model's name or a file in .*/models"):
            chosen(name)
    (folder / "out.safetensors").symlink_to(tmp_path / "secret")
    (folder / "further").symlink_to(tmp_path)
    (folder / "within.safetensors").symlink_to("mine.safetensors")
    assert chosen("within").model == str(folder / "within.safetensors")
    with pytest.raises(CommandError, match=r"^found model 'out', a link that leads out of .*/models, expected a file"):
        chosen("out")
    with pytest.raises(CommandError, match=r"expected a shipped model's name or a file in .*/models"):
        chosen("further")
    (tmp_path / "by-link").symlink_to(folder)
    running_by_link = config(swap={"model_folder": str(tmp_path / "by-link")})
    assert with_model(running_by_link, ModelCommand(model="mine")).model == str(tmp_path / "by-link/mine.safetensors")
    with pytest.raises(CommandError, match="found camera 'back', expected one of front"):
        chosen("mine", camera="back")
    with pytest.raises(CommandError, match=r"the config names no `swap\.model_folder`"):
        with_model(config(), ModelCommand(model="mine"))
