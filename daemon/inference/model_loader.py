"""Which network each camera gets: distinct files verified, distinct models made ready once, running ones taken over."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.loader import Problem
from edgemeta.daemon.inference.loaded_model import LoadedModel, load_model
from edgemeta.daemon.inference.model_file import ModelFile, read_verified
from edgemeta.model.address import DigestError
from edgemeta.model.errors import ModelError
from edgemeta.model.signature import SignatureError, check_key
from edgemeta.plugins.api import Backend, BackendError, OptionError
from edgemeta.plugins.registry import choose

Addresses: TypeAlias = Mapping[str, str]
"""By camera: its model's name or path, with the digest that it must have, if any."""

Verified: TypeAlias = dict[str, ModelFile]
"""The files of models by name or path."""


@dataclass(frozen=True)
class ModelProblem(Problem):
    """A model that cannot be used, at the key that names it; `cameras` are those that were to have it."""

    cameras: tuple[str, ...] = ()


def addresses_of(config: Config) -> dict[str, str]:
    """Which model the config gives to each camera."""
    return {camera: config.model_of(camera) for camera in config.cameras}


def verified_models(config: Config, addresses: Addresses, problems: list[Problem]) -> Verified:
    """Verify each model that a camera is to have, once; add to the problems what cannot be used."""
    trusted = _trusted_keys(config, problems)
    models: Verified = {}
    for address in dict.fromkeys(addresses.values()):
        if trusted is None:
            break
        try:
            models[address] = read_verified(address, trusted)
        except DigestError as error:
            problems.append(model_problem(config, addresses, address, error.found, error.expected))
        except ModelError as error:
            expected = "a shipped model's name or a model file"
            problems.append(model_problem(config, addresses, address, str(error), expected))
        except SignatureError as error:
            problems.append(model_problem(config, addresses, address, str(error), "a signed model"))
    return models


def model_problem(config: Config, addresses: Addresses, address: str, found: str, expected: str) -> ModelProblem:
    """Make a problem of a model, at the first key of the config that names it."""
    cameras = tuple(camera for camera, wanted in addresses.items() if wanted == address)
    shared = config.cameras[cameras[0]].model is None
    return ModelProblem(("model",) if shared else ("cameras", cameras[0], "model"), found, expected, cameras)


def backend_of(config: Config, problems: list[Problem]) -> Backend | None:
    """Choose the backend; add to the problems why it cannot run."""
    try:
        return choose(config.backend.name)
    except BackendError as error:
        problems.append(Problem(("backend", "name"), str(error), "`auto` or a backend that can run here"))
        return None


def models_of(
    config: Config,
    addresses: Addresses,
    models: Verified,
    backend: Backend,
    running: Iterable[LoadedModel],
    problems: list[Problem],
) -> dict[str, LoadedModel]:
    """Give each camera its network; one of the running ones, where that has the same model. Adds to the problems."""
    networks = {network.model.digest: network for network in running}
    for address, file in models.items():
        if file.model.digest not in networks:
            try:
                made = load_model(file.model, backend, config.backend.options, file.verify_ns)
            except OptionError as error:
                problems.append(Problem(("backend", "options"), str(error), "options that this backend has"))
                break
            except BackendError as error:
                expected = "a model that this backend runs as its file says"
                problems.append(model_problem(config, addresses, address, f"{file.path}: {error}", expected))
                continue
            networks[file.model.digest] = made
        networks[file.model.digest].file = file
    digests = {camera: models[name].model.digest for camera, name in addresses.items() if name in models}
    return {camera: networks[digest] for camera, digest in digests.items() if digest in networks}


def close_all(networks: Iterable[LoadedModel], but: Iterable[LoadedModel] = ()) -> None:
    """Give the memory of networks back, each once, but for some."""
    kept = {id(network) for network in but}
    for network in {id(network): network for network in networks}.values():
        if id(network) not in kept:
            network.close()


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
