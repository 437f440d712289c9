"""The service in a separate process: `edgemeta run` with a config for the demo."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

import yaml

from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.model.errors import EdgemetaError

STOP_TIMEOUT_S = 10.0
RUN = """
import ctypes, signal
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
from edgemeta.cli.main import main
main()
"""
"""The command; the kernel terminates it if the demo is killed (kill -9)."""
DEVICE = "demo"
CAMERA = "camera"


class DemoError(EdgemetaError):
    """The demo cannot start or had to stop, with the reason in one sentence."""


def write_config(
    folder: Path,
    source: SourceAddress,
    host: str,
    port: int,
    page: int | None = None,
    model: str | None = None,
    keys: Mapping[str, object] = MappingProxyType({}),
) -> Path:
    """Write the demo's config file into `folder`; MQTT 3.1.1, because the demo's broker supports no newer version.

    page: the port of the live page; None serves none. model: name or path; None uses the default. keys: others of the
    config.
    """
    config = {
        **({} if model is None else {"model": model}),
        "device": DEVICE,
        "cameras": {CAMERA: {"source": source.written}},
        "mqtt": {"host": host, "port": port, "version": "3.1.1", "outbox": {"max_disk_mb": 0}},
        "web": {} if page is None else {"enabled": True, "port": page},
        "stats": {"interval": 1.0},
        "log": {"level": "error"},
        **keys,
    }
    path = folder / "demo.yaml"
    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return path


class DemoService:
    """`edgemeta run CONFIG` for as long as the `with` block lasts; its log is `service.log` beside CONFIG.

    patience: seconds that it may take to stop, in which it ends the frame that it has begun.
    """

    def __init__(self, config: Path, patience: float = STOP_TIMEOUT_S) -> None:
        self._config, self._patience = config, patience
        self._log = config.with_name("service.log")

    def __enter__(self) -> "DemoService":
        # Its own session: Ctrl-C reaches the demo alone, which then stops the service in order.
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", RUN, "run", str(self._config)],
                cwd=self._config.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def check(self) -> None:
        """Raise DemoError with the end of the service's log if it has exited."""
        code = self._process.poll()
        if code is not None:
            description = self._log.read_text(errors="replace").strip().splitlines()
            raise DemoError(
                f"the service ended with exit code {code}: {description[-1] if description else 'it said nothing'}"
            )

    def stop(self) -> None:
        """Stop it (SIGTERM) and wait; a second call does nothing."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(self._patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                raise DemoError(
                    f"the service did not stop within {self._patience:.0f} seconds and was killed"
                ) from None
