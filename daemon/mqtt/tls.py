"""TLS to the broker: the context for the config's files, and the errors of failed handshakes."""

import ssl
from typing import Any

from edgemeta.daemon.config.broker import TlsConfig
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.mqtt.state import LinkError
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import FileError, read_small_file

MOST_BYTES = 16_000_000
"""Of a file of certificates; a system's whole list has a quarter of a million."""


class TlsError(EdgemetaError):
    """A certificate or key file cannot be used; `key` is its key below `mqtt.tls`."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


class Context(ssl.SSLContext):
    """A context that keeps its last socket: paho does not close a socket whose handshake failed."""

    last: ssl.SSLSocket | None = None

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Create a TLS socket, as SSLContext does."""
        self.last = super().wrap_socket(*arguments, **options)
        return self.last

    def close_last(self) -> None:
        """Close the last socket."""
        if self.last is not None:
            self.last.close()
            self.last = None


def context_of(config: TlsConfig) -> Context:
    """Return a context that checks the broker's certificate and host name. Raises TlsError."""
    context = Context(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if config.ca_file is None:
        context.load_default_certs()
    else:
        _check_readable("ca_file", config.ca_file)
        try:
            context.load_verify_locations(config.ca_file)
        except ssl.SSLError as error:
            raise TlsError("ca_file", f"{config.ca_file} contains no certificate (PEM)") from error
    if config.cert_file is not None:
        _load_certificate(context, config.cert_file, config.key_file)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    _check_readable("cert_file", certificate)
    if key is not None:
        _check_readable("key_file", key)
    asked: list[bool] = []

    def no_password() -> str:
        asked.append(True)
        return ""

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        files = f"{certificate} and {key}" if key is not None else certificate
        if asked:
            raise TlsError(
                "key_file" if key else "cert_file", f"the key in {key or certificate} is encrypted"
            ) from error
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(
                "key_file" if key else "cert_file", f"{files}: the key does not belong to the certificate"
            ) from error
        raise TlsError("cert_file", f"{files}: found no certificate and key (PEM)") from error


def _check_readable(key: str, path: str) -> None:
    try:
        read_small_file(path, MOST_BYTES)
    except FileError as error:
        raise TlsError(key, str(error)) from error


def handshake_failure(broker: str, error: ssl.SSLError) -> LinkError:
    """Return the error for a failed handshake."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return LinkError(
            BrokerState.BAD_CERTIFICATE, f"broker {broker}: certificate not trusted: {error.verify_message}"
        )
    return alert(broker, str(error)) or LinkError(
        BrokerState.UNREACHABLE, f"broker {broker}: no TLS connection: {_plain(error.reason or str(error))}"
    )


def alert(broker: str, text: str) -> LinkError | None:
    """Return the error for the broker's alert about our certificate; None if `text` contains none.

    With TLS 1.3 the broker checks it after our side of the handshake is done, so the alert comes with the first read.
    """
    reason = _plain(text.partition("[SSL: ")[2].partition("]")[0])
    if "alert" not in reason or not any(word in reason for word in ("certificate", "unknown ca", "access denied")):
        return None
    found = reason.partition("alert ")[2]
    return LinkError(BrokerState.BAD_CERTIFICATE, f"broker {broker} does not accept this device's certificate: {found}")


def _plain(reason: str) -> str:
    return reason.replace("_", " ").lower()
