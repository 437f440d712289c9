"""TLS and refusals with a real mosquitto and certificates created here: what works, and how failures are reported."""

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgemeta.daemon.config.broker import TlsConfig
from edgemeta.daemon.config.loader import ConfigError
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.outbox.delivery import OutgoingMessage
from edgemeta.daemon.mqtt.tls import TlsError, context_of
from edgemeta.daemon.service.plan import prepare
from rig.waiting import wait_until


@dataclass(frozen=True)
class Authority:
    """A certificate authority in a folder of its own."""

    folder: Path
    name: str

    @property
    def ca(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def issue(self, name: str, *subject: str, days: int = 2) -> dict[str, str]:
        """Make a certificate with these alternative names; return its files as `mqtt.tls` wants them."""
        key, request, certificate = (self.folder / f"{self.name}-{name}.{kind}" for kind in ("key", "csr", "crt"))
        openssl("req", "-newkey", *CURVE, "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = self.folder / "extensions"
        extensions.write_text(f"subjectAltName={','.join(subject)}\n" if subject else "basicConstraints=CA:FALSE\n")
        signer = ("-CA", self.ca, "-CAkey", self.folder / f"{self.name}.key", "-CAcreateserial")
        openssl(*("x509", "-req", "-in", request, *signer, "-out", certificate, "-days", days, "-extfile", extensions))
        return {"cert_file": str(certificate), "key_file": str(key)}


CURVE = ("ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture(scope="session")
def make_authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Authority]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed (Debian package openssl)")
    folder = tmp_path_factory.mktemp("certificates")

    def make(name: str) -> Authority:
        authority = Authority(folder, name)
        openssl(
            *("req", "-x509", "-newkey", *CURVE, "-nodes", "-keyout", folder / f"{name}.key", "-out", authority.ca),
            *("-days", 2, "-subj", f"/CN={name}"),
        )
        return authority

    return make


@pytest.fixture(scope="session")
def authority(make_authority: Callable[[str], Authority]) -> Authority:
    return make_authority("ours")


@pytest.fixture(scope="session")
def stranger(make_authority: Callable[[str], Authority]) -> Authority:
    return make_authority("theirs")


@pytest.fixture
def make_tls_broker(make_broker: Any, authority: Authority) -> Callable[..., Any]:
    def make(*lines: str, names: tuple[str, ...] = ("IP:127.0.0.1",), days: int = 2) -> Any:
        own = authority.issue("broker", *names, days=days)
        broker = make_broker(
            "allow_anonymous true",
            *(f"cafile {authority.ca}", f"certfile {own['cert_file']}", f"keyfile {own['key_file']}", *lines),
        )
        broker.start()
        return broker

    return make


def wait_for_state(link: Any, state: BrokerState) -> str:
    deadline = time.monotonic() + 60
    while link.status.state is not state:
        assert time.monotonic() < deadline, f"waited for {state}, it is {link.status}"
        time.sleep(0.01)
    return link.status.reason or ""


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_messages_go_over_tls(make_tls_broker: Any, make_link: Any, authority: Authority, version: Any) -> None:
    """More than one TLS record at once: what was decrypted already must not wait for the next byte."""
    broker = make_tls_broker()
    link = make_link(broker.port, version=version, tls={"enabled": True, "ca_file": str(authority.ca)})
    wait_for_state(link, BrokerState.CONNECTED)
    for value in range(500):
        link.send(OutgoingMessage("edgemeta/test/numbers", str(value).encode(), 1, retain=False, kept=True))
    wait_until(lambda: len(link.delivered.payloads) >= 500, "500 messages")
    assert link.delivered.payloads == [str(value).encode() for value in range(500)]


def test_a_client_certificate_is_shown_and_accepted(make_tls_broker: Any, make_link: Any, authority: Authority) -> None:
    broker = make_tls_broker("require_certificate true")
    own = authority.issue("device")
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)} | own)
    wait_for_state(link, BrokerState.CONNECTED)


@pytest.mark.parametrize("given", ["none", "a stranger's"])
def test_a_client_certificate_that_the_broker_does_not_accept(
    make_tls_broker: Any, make_link: Any, authority: Authority, stranger: Authority, given: str
) -> None:
    broker = make_tls_broker("require_certificate true")
    own = stranger.issue("device") if given != "none" else {}
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)} | own)
    reason = wait_for_state(link, BrokerState.BAD_CERTIFICATE)
    assert f"broker 127.0.0.1:{broker.port} does not accept this device's certificate: " in reason
    assert ("certificate required" if given == "none" else "unknown ca") in reason
    assert link.connects == 0


def test_a_broker_whose_certificate_is_a_strangers(
    make_tls_broker: Any, make_link: Any, stranger: Authority, caplog: Any
) -> None:
    broker = make_tls_broker()
    with caplog.at_level("WARNING"):
        link = make_link(broker.port, tls={"enabled": True, "ca_file": str(stranger.ca)})
        reason = wait_for_state(link, BrokerState.BAD_CERTIFICATE)
    assert reason.startswith(f"broker 127.0.0.1:{broker.port}: certificate not trusted: ")
    assert "self-signed certificate in certificate chain" in reason
    assert reason in caplog.text
    assert link.connects == 0


def test_a_broker_whose_certificate_has_another_name(
    make_tls_broker: Any, make_link: Any, authority: Authority
) -> None:
    broker = make_tls_broker(names=("DNS:broker.example.org",))
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)})
    reason = wait_for_state(link, BrokerState.BAD_CERTIFICATE)
    assert "IP address mismatch, certificate is not valid for '127.0.0.1'" in reason


def test_a_broker_whose_certificate_is_not_valid_now(
    make_tls_broker: Any, make_link: Any, authority: Authority
) -> None:
    broker = make_tls_broker(days=-1)
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)})
    assert "certificate has expired" in wait_for_state(link, BrokerState.BAD_CERTIFICATE)


def test_a_refused_certificate_is_tried_again_at_once_when_the_clock_is_set(
    make_tls_broker: Any, make_link: Any, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt would come after half a minute or more."""
    broker = make_tls_broker(days=-1)
    patient = {"initial_delay": 60, "max_delay": 60}
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)}, retry=patient)
    wait_for_state(link, BrokerState.BAD_CERTIFICATE)
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 3600 * 10**9)
    wait_until(lambda: link.stats.failures.bad_certificate >= 2, "another attempt", 40)


def test_tls_where_none_is_spoken(broker: Any, make_link: Any, authority: Authority) -> None:
    link = make_link(broker.port, tls={"enabled": True, "ca_file": str(authority.ca)})
    assert "cannot be reached" in (reason := wait_for_state(link, BrokerState.UNREACHABLE)) or "no TLS" in reason


def test_no_tls_where_it_is_spoken(make_tls_broker: Any, make_link: Any) -> None:
    link = make_link(make_tls_broker().port)
    assert "closed the connection before it answered" in wait_for_state(link, BrokerState.UNREACHABLE)


@pytest.mark.parametrize("version", [5, "3.1.1"])
def test_a_client_id_that_another_client_takes_repeatedly(
    broker: Any, make_link: Any, version: Any, caplog: Any
) -> None:
    """This mosquitto (2.0.11) closes the connection without a word, with MQTT 5, too."""
    conclusion = "accepts each connection and closes it soon after without a reason"
    with caplog.at_level("WARNING"):
        link = make_link(broker.port, version=version)
        wait_for_state(link, BrokerState.CONNECTED)
        thief = make_link(broker.port, version=version, topic="edgemeta/thief/availability")
        deadline = time.monotonic() + 60
        while conclusion not in caplog.text:  # it is logged after it is counted
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert link.stats.failures.client_id_taken or thief.stats.failures.client_id_taken
    assert "unspecified" not in caplog.text.lower()
    assert "lost: the broker closed it without a reason, as brokers do when another client connects" in caplog.text
    assert "another client probably uses the client id 'link-under-test', too" in caplog.text


def test_a_client_id_conflict_reported_by_the_broker(make_link: Any) -> None:
    accepted, taken_over = bytes([0x20, 3, 0, 0, 0]), bytes([0xE0, 2, 0x8E, 0])

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(accepted + taken_over)
            while connection.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        broker = threading.Thread(target=serve, args=(listener,))
        broker.start()
        link = make_link(listener.getsockname()[1], retry={"initial_delay": 3600, "max_delay": 3600})
        reason = wait_for_state(link, BrokerState.CLIENT_ID_TAKEN)
        broker.join(60)
    assert reason.endswith(": another client has taken the client id 'link-under-test'")


def test_after_a_refusal_the_next_try_is_slow(make_broker: Any, make_link: Any) -> None:
    broker = make_broker("allow_anonymous false")
    broker.start()
    link = make_link(broker.port, retry={"initial_delay": 0.01, "max_delay": 3600})
    wait_for_state(link, BrokerState.REFUSED_LOGIN)
    begun = time.monotonic()
    while time.monotonic() - begun < 0.3:
        assert link.stats.failures.refused_login == 1
        time.sleep(0.02)


def test_a_missing_password_file_is_reported_and_read_again(make_broker: Any, make_link: Any, tmp_path: Path) -> None:
    broker = make_broker()
    broker.start()
    secret = tmp_path / "secret"
    link = make_link(broker.port, username="u", password_file=str(secret))
    reason = wait_for_state(link, BrokerState.REFUSED_LOGIN)
    assert reason == f"password file {secret} cannot be read: No such file or directory"
    secret.write_text("open sesame\n")
    wait_for_state(link, BrokerState.CONNECTED)


# -- files


def test_unusable_files_are_reported(authority: Authority, stranger: Authority, tmp_path: Path) -> None:
    own, other = authority.issue("one"), authority.issue("two")
    empty = tmp_path / "empty.pem"
    empty.touch()
    locked = tmp_path / "locked.key"
    openssl("ec", "-in", own["key_file"], "-aes128", "-passout", "pass:geheim", "-out", locked)
    cases: list[tuple[dict[str, str], str, str]] = [
        ({"ca_file": "/nowhere/ca.pem"}, "ca_file", "/nowhere/ca.pem cannot be read: No such file or directory"),
        ({"ca_file": str(empty)}, "ca_file", f"{empty} contains no certificate (PEM)"),
        ({"ca_file": str(tmp_path)}, "ca_file", f"{tmp_path} is a folder, expected a regular file"),
        ({"cert_file": "/nowhere/own.pem"}, "cert_file", "/nowhere/own.pem cannot be read: No such file"),
        (
            own | {"key_file": "/nowhere/own.key"},
            "key_file",
            "/nowhere/own.key cannot be read: No such file or directory",
        ),
        (own | {"key_file": other["key_file"]}, "key_file", "the key does not belong to the certificate"),
        (own | {"key_file": str(locked)}, "key_file", f"the key in {locked} is encrypted"),
        (own | {"key_file": str(empty)}, "cert_file", "found no certificate and key (PEM)"),
        ({"cert_file": own["cert_file"]}, "cert_file", "found no certificate and key (PEM)"),
    ]
    for keys, key, description in cases:
        with pytest.raises(TlsError) as caught:
            context_of(TlsConfig.model_validate({"enabled": True} | keys))
        assert (caught.value.key, description in str(caught.value)) == (key, True), str(caught.value)
    context_of(TlsConfig.model_validate({"enabled": True, "ca_file": str(stranger.ca)} | own))
    both = tmp_path / "both.pem"
    both.write_text(Path(own["cert_file"]).read_text() + Path(own["key_file"]).read_text())
    context_of(TlsConfig(enabled=True, cert_file=str(both)))
    context_of(TlsConfig(enabled=True))


def test_a_config_names_the_line_of_a_wrong_file(write_config: Any) -> None:
    path = write_config(mqtt={"tls": {"enabled": True, "ca_file": "ca.pem"}})
    with pytest.raises(ConfigError) as caught:
        prepare(path)
    assert f"mqtt.tls.ca_file: found {path.parent / 'ca.pem'} cannot be read: No such file or directory" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("mqtt", "description"),
    [
        ({"tls": {"ca_file": "ca.pem"}}, "expected `enabled: true` beside `ca_file`"),
        ({"tls": {"enabled": True, "key_file": "k"}}, "expected `cert_file` beside `key_file`"),
        ({"tls": {"insecure": True}}, "mqtt.tls.insecure: found an unknown key"),
        ({"username": "a", "username_env": "A"}, "expected only one of username, username_env"),
        ({"password": "a"}, "expected `username` beside `password`"),
        ({"username_env": "EDGEMETA_ABSENT"}, "environment variable EDGEMETA_ABSENT is not set"),
        ({"queue": 5}, "mqtt.queue: found an unknown key"),
        ({"message_expiry_interval": 0}, "mqtt.message_expiry_interval: found 0, expected at least 1"),
        ({"outbox": {"max_disk_mb": -1}}, "mqtt.outbox.max_disk_mb: found -1, expected at least 0"),
        ({"outbox": {"max_disk_mb": "256"}}, "mqtt.outbox.max_disk_mb: found the text '256', expected a whole number"),
        ({"outbox": {"max_age": 0.0}}, "mqtt.outbox.max_age: found 0.0, expected more than 0"),
        ({"outbox": {"max_age": float("inf")}}, "mqtt.outbox.max_age: found inf, expected"),
        (
            {"outbox": {"max_replayed_per_second": 20_000}},
            "mqtt.outbox.max_replayed_per_second: found 20000, expected at most 10000",
        ),
        ({"outbox": {"max_ages": 2}}, "mqtt.outbox.max_ages: found an unknown key, expected `max_age`"),
        ({"outbox": 5}, "mqtt.outbox: found 5, expected a mapping"),
    ],
)
def test_wrong_keys_get_one_sentence(write_config: Any, mqtt: dict[str, Any], description: str) -> None:
    path = write_config(mqtt=mqtt)
    with pytest.raises(ConfigError) as caught:
        prepare(path)
    assert description in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
