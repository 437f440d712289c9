"""Gets networks of the registry: `edgemeta model get` in a process of its own, one at a time.

The service imports nothing of the workshop, and a crash or too much memory there does not touch it.
"""

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from edgemeta.daemon.collect.limited_command import EDGEMETA, WAITED_FOR, LimitedCommandError, Limits, run_limited
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder, make_folder
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.model.known.registry import KnownNetwork

log = logging.getLogger(__name__)

MAX_MEMORY_MB = 2048
TELLS_EVERY = 1.0
"""Least seconds between two reports of the progress."""

NEEDS = {".tflite": ("tflite",), ".onnx": ("onnx", "onnxslim")}
"""Packages of the extra `import` that a network's file needs."""

Fetched = Callable[["bytes | None", "str | None"], None]
"""Called, in the thread of the fetcher, with the content of the model file, or with the reason why there is none."""


@dataclass(frozen=True)
class Fetching:
    """What is fetched; percentage: of the download, None in other steps."""

    name: str
    percentage: int | None = None


class ModelFetcher:
    """Runs the command. Any thread may call it. changed: called when `running` or `failed` have changed."""

    def __init__(
        self,
        changed: Callable[[], None],
        on_fatal: Callable[[BaseException], None],
        command: tuple[str, ...] = EDGEMETA,
    ) -> None:
        self._changed = changed
        self._on_fatal = on_fatal
        self._command = command
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None
        self.running: Fetching | None = None
        self.failed: dict[str, str] = {}
        """Why the last attempt for a name failed."""

    def start(self, name: str, network: KnownNetwork, config: Config, fetched: Fetched) -> str | None:
        """Start to fetch a network; return why that is not possible, in one sentence, or None."""
        missing = next(
            (each for each in NEEDS.get(Path(network.file.name).suffix, ()) if find_spec(each) is None), None
        )
        if missing is not None:
            reason = f"{name} needs the extra `import`: found no package {missing}: pip install 'edgemeta[import]'"
            self.refuse(name, reason)
            return reason
        with self._lock:
            if self.running is not None:
                return f"{self.running.name} is being fetched just now"
            self.running = Fetching(name)
            self.failed.pop(name, None)
        self._cancelled.clear()
        self._thread = guarded_thread("fetcher", lambda: self._run(name, network, config, fetched), self._on_fatal)
        self._thread.start()
        return None

    def end(self, name: str, failed: str | None) -> None:
        """What was fetched is in use, or why it is not."""
        self.running = None
        if failed is None:
            self._changed()
        else:
            self.refuse(name, failed)

    def refuse(self, name: str, reason: str) -> None:
        """Say why a model is not updated."""
        self.failed[name] = reason
        log.warning("model %s is not updated: %s", name, reason)
        self._changed()

    def stop(self, timeout: float) -> None:
        """End the run in progress with the service."""
        self._cancelled.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self, name: str, network: KnownNetwork, config: Config, fetched: Fetched) -> None:
        self._changed()
        log.info("model %s: fetching it from %s", name, network.file.address)
        try:
            content = self._fetch(name, network, config)
        except (LimitedCommandError, OSError) as error:
            fetched(None, str(error))
        else:
            fetched(content, None)

    def _fetch(self, name: str, network: KnownNetwork, config: Config) -> bytes:
        folder = data_folder(config.data_folder) / f"fetched-{config.device}"
        make_folder(folder)
        file = folder / f"{name}.safetensors"
        command = (*self._command, "model", "get", name, "--out", str(file), "--progress", "--json")
        timeout = config.swap.update_timeout
        limits = Limits(timeout, "`swap.update_timeout`", MAX_MEMORY_MB, "the limit in megabytes", WAITED_FOR)
        cache = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(folder)}
        try:
            result = run_limited(command, limits, self._cancelled, _Told(self, name).hear, cache)
            content = file.read_bytes()
        finally:
            file.unlink(missing_ok=True)
        for note in result.get("notes", ()):
            log.info("model %s: %s", name, note)
        if (found := hashlib.sha256(content).hexdigest()) != network.made().digest:
            raise LimitedCommandError(f"found the SHA-256 {found}, expected {network.made().digest}")
        return content

    def tell(self, fetching: Fetching) -> None:
        """How far it is."""
        self.running = fetching
        self._changed()


class _Told:
    """What the command says on standard error: each line to the log, how far a download is to the fetcher."""

    def __init__(self, fetcher: ModelFetcher, name: str) -> None:
        self._fetcher, self._name = fetcher, name
        self._line, self._told = "", time.monotonic()

    def hear(self, line: str) -> None:
        if line == self._line:
            return
        self._line = line
        found = re.search(r"(\d+)%$", line)
        if found is None:
            log.info("model %s: %s", self._name, line.removeprefix("edgemeta: "))
        percentage = None if found is None else min(100, int(found[1]))
        if found is None or time.monotonic() - self._told >= TELLS_EVERY:
            self._told = time.monotonic()
            self._fetcher.tell(Fetching(self._name, percentage))
