"""The certificate of an https camera: checked unless the config says otherwise."""

import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.camera import CameraTlsConfig
from edgemeta.daemon.config.source_address import SourceAddress
from tests.daemon.capture.sources.stream.lost_camera import JPEG


class Snapshot(BaseHTTPRequestHandler):
    """A snapshot address."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "image/jpeg")
        self.send_header("Content-Length", str(len(JPEG)))
        self.end_headers()
        self.wfile.write(JPEG)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class QuietServer(ThreadingHTTPServer):
    """Clients that refuse its certificate are no errors."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def camera(tmp_path: Path) -> Iterator[Callable[[str], tuple[str, str]]]:
    """Starts a camera with a certificate of its own for a name; returns its address and the certificate's file."""
    servers: list[QuietServer] = []

    def start(name: str) -> tuple[str, str]:
        key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
        make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=camera"
        files = ["-keyout", str(key), "-out", str(certificate), "-addext", f"subjectAltName={name}"]
        subprocess.run([*make.split(), *files], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server = QuietServer(("127.0.0.1", 0), Snapshot)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"https://user:geheim@127.0.0.1:{server.server_port}/a.jpg", str(certificate)

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def read(address: str, tls: CameraTlsConfig) -> tuple[int, ...]:
    source = make_source(SourceSpec(SourceAddress(address), timeout=20, tls=tls))
    source.open()
    try:
        return source.read().pixels.shape
    finally:
        source.close()


def test_a_certificate_of_an_unknown_authority_is_refused(camera: Callable[[str], tuple[str, str]]) -> None:
    address, certificate = camera("IP:127.0.0.1")
    with pytest.raises(SourceError, match=r"unknown authority.*, expected `tls\.ca_file` or `tls\.verify: false`"):
        read(address, CameraTlsConfig())
    assert read(address, CameraTlsConfig(ca_file=certificate)) == (48, 64, 3)
    assert read(address, CameraTlsConfig(verify=False)) == (48, 64, 3)


def test_a_certificate_of_another_name_is_refused(camera: Callable[[str], tuple[str, str]]) -> None:
    address, certificate = camera("DNS:somebody.else")
    with pytest.raises(SourceError, match="a certificate for another name"):
        read(address, CameraTlsConfig(ca_file=certificate))


def test_a_file_of_certificates_that_is_not_there(camera: Callable[[str], tuple[str, str]]) -> None:
    with pytest.raises(SourceError, match=r"needs the certificates in /gone\.pem, which cannot be read"):
        read("https://127.0.0.1/", CameraTlsConfig(ca_file="/gone.pem"))
