"""Asks a running service to collect, through its live page: it owns the camera, and keeps the pictures itself."""

import http.client
import ipaddress
import json
import time
from pathlib import Path

from pydantic import BaseModel, ValidationError

from edgemeta.daemon.collect.direct import Collected, OnProgress
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.secrets import SecretError, token_of
from edgemeta.daemon.messages.collection import CollectionState, HoldRequest

TIMEOUT = 20.0
RENEW_EVERY = 0.5
WRITTEN_WITHIN = 10.0
"""Seconds after the end in which the last pictures are written, even on a slow disk."""

ASK_EVERY = 0.05
"""Seconds between two questions whether they are."""


class RunningService:
    """The service of a config, if it runs and serves its page. `find` makes one."""

    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port, self._token = host, port, token

    @staticmethod
    def find(config: Config) -> "RunningService | str | None":
        """Return the service of a config; why it cannot be asked, if it runs; None if none answers."""
        web = config.web
        if not web.enabled or web.port == 0:
            return None
        try:
            token = token_of(web) or ""
        except SecretError as error:
            return str(error)
        service = RunningService(_reachable(web.host), web.port, token)
        try:
            state = service.state()
        except OSError:
            return None
        except CollectError as error:
            return str(error)
        if state.unavailable is not None:
            return state.unavailable
        return service if state.device == config.device else None

    def state(self) -> CollectionState:
        """Return the panel's state. Raises OSError where nothing answers, CollectError where it refuses."""
        return self._ask("GET", "/api/collection", None)

    def collect(self, camera: str, label: str, seconds: float, on_progress: OnProgress) -> Collected:
        """Have a camera's frames kept for some seconds. Raises CollectError if nothing could be kept."""
        began, first, ended, kept = time.monotonic(), True, None, 0
        state, name = None, label
        try:
            while (lasting := time.monotonic() - began) < seconds:
                on_progress(kept, lasting)
                try:
                    state = self._request(HoldRequest(camera=camera, label=label, hold=True, first=first))
                except CollectError as error:
                    if first:
                        raise
                    ended = str(error)
                    break
                first, kept = False, state.cameras[camera].kept
                name = state.cameras[camera].collecting or name
                time.sleep(min(RENEW_EVERY, max(0.0, seconds - lasting)))
        except KeyboardInterrupt:
            ended = "interrupted"
        state = self._when_written(self._request(HoldRequest(camera=camera, label=name, hold=False)), camera)
        collected = state.cameras[camera]
        if collected.kept == 0:
            raise CollectError(ended or f"camera {camera} delivered no frame within {seconds:g} s to the service")
        return Collected(name, collected.kept, collected.skipped, Path(state.folder) / camera, ended)

    def _when_written(self, state: CollectionState, camera: str) -> CollectionState:
        """Return the state in which no frame of a camera waits to be written. Raises CollectError."""
        deadline = time.monotonic() + WRITTEN_WITHIN
        while state.cameras[camera].waiting > 0:
            if time.monotonic() > deadline:
                raise CollectError(
                    f"the service did not write its last pictures of camera {camera} within {WRITTEN_WITHIN:g} s"
                )
            time.sleep(ASK_EVERY)
            state = self._answer("GET", "/api/collection", None)
        return state

    def _request(self, request: BaseModel) -> CollectionState:
        return self._answer("POST", "/api/collect", request.model_dump_json().encode())

    def _answer(self, method: str, path: str, body: bytes | None) -> CollectionState:
        """As `_ask`, but CollectError where nothing answers any more."""
        try:
            return self._ask(method, path, body)
        except OSError as error:
            raise CollectError(f"the service at {self._host} port {self._port} does not answer: {error}") from error

    def _ask(self, method: str, path: str, body: bytes | None) -> CollectionState:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        headers = {"Authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request(method, path, body, headers | {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        except http.client.HTTPException as error:
            raise CollectError(f"port {self._port} does not speak HTTP: {error!r}") from error
        finally:
            connection.close()
        if answer.status != http.client.OK:
            raise CollectError(text.decode("utf-8", "replace").strip() or f"HTTP status {answer.status}")
        try:
            return CollectionState.model_validate(json.loads(text))
        except (ValueError, ValidationError) as error:
            raise CollectError(f"port {self._port} is not the page of an edgemeta service of this version") from error


def _reachable(host: str) -> str:
    """Return the address of this machine for an address that is listened on."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:
        return "::1" if address.version == 6 else "127.0.0.1"
    return host
