"""Starts a Home Assistant core of another Python at a broker, and asks it."""

import json
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from rig.waiting import RigError, free_port, wait_until

MANIFEST = {"domain": "probe", "name": "Probe", "version": "1", "codeowners": [], "requirements": []}
STARTS_WITHIN = 120.0


class Core:
    """A running core. python: an interpreter whose environment has homeassistant and paho-mqtt."""

    def __init__(self, python: Path, folder: Path, broker_port: int) -> None:
        self._port = free_port()
        self.log = folder / "core.log"
        probe = folder / "custom_components" / "probe"
        probe.mkdir(parents=True)
        shutil.copy(Path(__file__).with_name("probe.py"), probe / "__init__.py")
        (probe / "manifest.json").write_text(json.dumps(MANIFEST))
        http = {"server_host": "127.0.0.1", "server_port": free_port()}
        config = {"http": http, "probe": {"port": self._port, "broker": broker_port}}
        (folder / "configuration.yaml").write_text(json.dumps(config))  # JSON is YAML
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [str(python), "-m", "homeassistant", "-c", str(folder), "--skip-pip"], stdout=log, stderr=log
            )
        try:
            wait_until(self._answers, f"Home Assistant to start ({self.log})", STARTS_WITHIN)
        except RigError:
            self.stop()
            raise

    def ask(self, **request: Any) -> Any:
        """Send a request to the probe; return its answer. Raises RigError."""
        with socket.create_connection(("127.0.0.1", self._port), 30) as connection, connection.makefile("rw") as file:
            file.write(json.dumps(request) + "\n")
            file.flush()
            answer = json.loads(file.readline())
        if isinstance(answer, dict) and "error" in answer:
            raise RigError(f"{request}: {answer['error']}")
        return answer

    def entities(self) -> dict[str, dict[str, Any]]:
        """All entities of the MQTT integration by their unique id."""
        found: dict[str, dict[str, Any]] = self.ask(do="entities")
        return found

    def call(self, service: str, entity: str, **data: Any) -> None:
        """Call a service, such as `switch.turn_on`, for an entity."""
        domain, _, name = service.partition(".")
        self.ask(do="call", domain=domain, service=name, data={"entity_id": entity, **data})

    def stop(self) -> None:
        """Stop it."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise RigError(f"Home Assistant ended with {self._process.returncode}, see {self.log}")
        try:
            self.ask(do="complaints")
        except OSError:
            return False
        return True
