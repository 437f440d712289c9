"""From a config file to everything the service needs, checked without cameras or broker: model, backend, sources."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.config.file import ConfigFile, Problem
from edgemeta.daemon.config.whole import Config, digest, resolved
from edgemeta.daemon.naming import unknown_labels
from edgemeta.daemon.network import Network
from edgemeta.daemon.secret import SecretError, password_of, token_of, username_of
from edgemeta.daemon.sources.api import Source, SourceError, SourceSpec
from edgemeta.daemon.sources.registry import make_source, without_password
from edgemeta.daemon.tls import TlsError, context_of
from edgemeta.model.errors import ModelError
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.api import Backend, BackendError
from edgemeta.plugins.registry import choose


@dataclass(frozen=True)
class Plan:
    """What would run: a config without mistakes, its model compiled, its sources made but not opened.

    Whoever holds the plan closes the network.
    """

    config: Config
    config_sha256: str
    network: Network
    sources: dict[str, Source]


def prepare(path: Path, running: Plan | None = None) -> Plan:
    """Read a config file and make ready what it names. Raises ConfigError with every mistake at once.

    The network of a running plan is taken over where model file and backend are still the same.
    """
    file = ConfigFile(path)
    config, problems = file.validate()
    if config is None:
        raise file.error(problems)
    config = resolved(config, path.parent)
    wrong = {problem.path[0] for problem in problems}

    model = None if "model" in wrong else _model(config, problems)
    if model is not None and "labels" not in wrong:
        _check_labels(config, model, problems)
    backend = None if "backend" in wrong else _backend(config, problems)
    network = _network(config, model, backend, running, problems) if model and backend else None
    if "mqtt" not in wrong:
        _check_login(config, problems)
        _check_tls(config, problems)
        _check_outbox(config, problems)
    if "web" not in wrong:
        _check_token(config, problems)
    sources = {name: _source(name, camera, problems) for name, camera in config.cameras.items()}
    if problems or network is None:
        if network is not None and (running is None or network is not running.network):
            network.close()
        raise file.error(problems)
    made = {name: source for name, source in sources.items() if source is not None}
    return Plan(config, digest(config), network, made)


def _model(config: Config, problems: list[Problem]) -> Model | None:
    try:
        return load(find(config.model))
    except ModelError as error:
        problems.append(Problem(("model",), str(error), "a shipped model's name or a model file"))
        return None


def _check_labels(config: Config, model: Model, problems: list[Problem]) -> None:
    for label in unknown_labels(config.labels, [model]):
        known = difflib.get_close_matches(label, model.task.labels, n=1) or model.task.labels
        names = ", ".join(known)
        expected = f"`{names}`" if len(known) == 1 else f"one of {names}"
        problems.append(Problem(("labels", label), f"a label that {model.name} does not have", expected))


def _backend(config: Config, problems: list[Problem]) -> Backend | None:
    try:
        return choose(config.backend.name)
    except BackendError as error:
        problems.append(Problem(("backend", "name"), str(error), "`auto` or a backend that can run here"))
        return None


def _network(
    config: Config, model: Model, backend: Backend, running: Plan | None, problems: list[Problem]
) -> Network | None:
    if running and running.network.model.digest == model.digest and running.config.backend == config.backend:
        return running.network
    try:
        return Network(model, backend.name, backend.compile(model, config.backend.options))
    except BackendError as error:
        problems.append(Problem(("backend", "options"), str(error), "options and a model this backend can run"))
        return None


def _check_login(config: Config, problems: list[Problem]) -> None:
    for secret_of in (username_of, password_of):
        try:
            secret_of(config.mqtt)
        except SecretError as error:
            problems.append(Problem(("mqtt", error.key), str(error), "what the broker wants to know there"))


def _check_token(config: Config, problems: list[Problem]) -> None:
    try:
        token_of(config.web)
    except SecretError as error:
        problems.append(Problem(("web", error.key), str(error), "at least 16 letters, digits or `-._~+/=`"))


def _check_tls(config: Config, problems: list[Problem]) -> None:
    if not config.mqtt.tls.enabled:
        return
    try:
        context_of(config.mqtt.tls)
    except TlsError as error:
        problems.append(Problem(("mqtt", "tls", error.key), str(error), "a PEM file that TLS can use"))


def _check_outbox(config: Config, problems: list[Problem]) -> None:
    """The service makes the folder; here it is only asked whether something else is in its place."""
    folder = config.mqtt.outbox.folder
    if folder is not None and Path(folder).exists() and not Path(folder).is_dir():
        problems.append(Problem(("mqtt", "outbox", "folder"), f"{folder}, which is no folder", "a folder"))


def _source(name: str, camera: CameraConfig, problems: list[Problem]) -> Source | None:
    try:
        return make_source(SourceSpec(camera.source, camera.fps, camera.loop, camera.timeout))
    except SourceError as error:
        found = str(error).replace(camera.source, without_password(camera.source))
        problems.append(Problem(("cameras", name, "source"), found, "the address of a source"))
        return None
