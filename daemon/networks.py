"""Which network each camera gets: distinct files verified, distinct models made ready once, running ones taken over."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from edgemeta.daemon.config.file import KeyPath, Problem
from edgemeta.daemon.config.whole import Config
from edgemeta.daemon.network import Network, make_ready, verified
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import Model
from edgemeta.model.signature import SignatureError, check_key
from edgemeta.plugins.api import Backend, BackendError
from edgemeta.plugins.registry import choose

Verified = dict[str, tuple[Model, int]]
"""By name or path: a verified model and the nanoseconds that took."""


def verified_models(config: Config, problems: list[Problem]) -> Verified:
    """Verify each model that a camera is to have, once; add to the problems what cannot be used."""
    trusted = _trusted_keys(config, problems)
    models: Verified = {}
    for key, name in _keys_by_model(config).items():
        if trusted is None:
            break
        try:
            models[name] = verified(name, trusted)
        except (ModelError, SignatureError) as error:
            expected = "a shipped model's name or a model file" if isinstance(error, ModelError) else "a signed model"
            problems.append(Problem(key, str(error), expected))
    return models


def backend_of(config: Config, problems: list[Problem]) -> Backend | None:
    """Choose the backend; add to the problems why it cannot run."""
    try:
        return choose(config.backend.name)
    except BackendError as error:
        problems.append(Problem(("backend", "name"), str(error), "`auto` or a backend that can run here"))
        return None


def networks_of(
    config: Config, models: Verified, backend: Backend, running: Iterable[Network], problems: list[Problem]
) -> dict[str, Network]:
    """Give each camera its network; one of the running ones, where that has the same model. Adds to the problems."""
    networks = {network.model.digest: network for network in running}
    for model, verify_ns in models.values():
        if model.digest in networks:
            continue
        try:
            networks[model.digest] = make_ready(model, backend, config.backend.options, verify_ns)
        except BackendError as error:
            problems.append(Problem(("backend", "options"), str(error), "options and a model this backend can run"))
    names = {camera: config.model_of(camera) for camera in config.cameras}
    digests = {camera: models[name][0].digest for camera, name in names.items() if name in models}
    return {camera: networks[digest] for camera, digest in digests.items() if digest in networks}


def close_all(networks: Iterable[Network], but: Iterable[Network] = ()) -> None:
    """Give the memory of networks back, each once, but for some."""
    kept = {id(network) for network in but}
    for network in {id(network): network for network in networks}.values():
        if id(network) not in kept:
            network.close()


def _keys_by_model(config: Config) -> Mapping[KeyPath, str]:
    """For each model that a camera is to have: the first key of the config that names it."""
    keys: dict[str, KeyPath] = {}
    for name, camera in config.cameras.items():
        keys.setdefault(config.model_of(name), ("model",) if camera.model is None else ("cameras", name, "model"))
    return {key: model for model, key in keys.items()}


def _trusted_keys(config: Config, problems: list[Problem]) -> list[Path] | None:
    """The files of trusted keys, looked at; None where one cannot be used."""
    paths = [Path(key) for key in config.trust.keys]
    for path in paths:
        try:
            check_key(path)
        except SignatureError as error:
            problems.append(Problem(("trust", "keys"), str(error), "files of Ed25519 public keys (PEM)"))
            return None
    return paths
