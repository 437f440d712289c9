"""Access control: clients with the token or, without one, programs of this machine.

A program sends the token as `Authorization: Bearer TOKEN`. A browser sends it once, in a form, and keeps a cookie; not
in a URL, which would appear in logs and histories. The cookie is an HMAC of the token: it stays valid after a restart,
does not reveal the token, and becomes invalid with it.

Without a token the address is a loopback one. A remote site could still point its own name there (DNS rebinding) and
read through the browser; so the Host header must then be a name of this machine.
"""

import hashlib
import hmac
import ipaddress
import logging
import time
from dataclasses import replace
from http import HTTPStatus
from urllib.parse import parse_qs

from edgemeta.daemon.web.request import Request
from edgemeta.daemon.web.response import JSON, Response, sentence

log = logging.getLogger(__name__)

WRONG_TOKEN_DELAY = 1.0
"""Seconds before the answer to a wrong token."""

LOG_EVERY = 60.0
"""Seconds between two log lines about wrong tokens."""


class Access:
    """Checks requests. `name` distinguishes the cookies of several devices at one address."""

    def __init__(self, token: str | None, name: str) -> None:
        self._token = token
        self._cookie = f"edgemeta-{name}"
        self._logged = -LOG_EVERY

    def refusal(self, request: Request) -> Response | None:
        """Return the answer to a client without access; None for one with access."""
        if self._token is None:
            if is_this_machine(request.headers.get("host", "")):
                return None
            return sentence(HTTPStatus.MISDIRECTED_REQUEST, "only for this machine: use 127.0.0.1, [::1] or localhost")
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return None if _same(given.strip(), self._token) else self._wrong(request)
        if _same(request.cookie(self._cookie) or "", self._session):
            return None
        return self._unauthorized("a token is required: send Authorization: Bearer TOKEN, or sign in at /")

    def sign_in(self, request: Request) -> Response | None:
        """Return the answer to a form with the right token; None for a wrong one."""
        if self._token is None:
            return sentence(HTTPStatus.NOT_FOUND, "no token is required here")
        form = parse_qs(request.body.decode("latin-1"))
        if not _same(form.get("token", [""])[0].strip(), self._token):
            self._log_wrong(request)
            return None
        cookie = f"{self._cookie}={self._session}; Path=/; HttpOnly; SameSite=Strict"
        return sentence(HTTPStatus.SEE_OTHER, "signed in", {"Location": "./", "Set-Cookie": cookie})

    def refusal_of_action(self, request: Request) -> Response | None:
        """Return the answer to a request that changes something and must not; None for one that may.

        It needs a configured token, and must come from this page: `Sec-Fetch-Site` says so where the browser sends it
        (over HTTPS, or on this machine), otherwise `Origin` must name the host that was asked. Another site's form
        cannot send JSON. A program that sends the token itself has no origin.
        """
        if self._token is None:
            return sentence(HTTPStatus.FORBIDDEN, "changes need an access token: set web.token_file in the config")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return sentence(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body must be {JSON}")
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        if site is not None:
            is_ours = site == "same-origin"
        elif origin is not None:
            is_ours = origin.partition("://")[2] == request.headers.get("host", "")
        else:
            is_ours = request.headers.get("authorization") is not None
        return None if is_ours else sentence(HTTPStatus.FORBIDDEN, "only from the page itself, or with the token")

    @property
    def _session(self) -> str:
        assert self._token is not None
        return hmac.new(self._token.encode(), b"edgemeta page", hashlib.sha256).hexdigest()

    def _wrong(self, request: Request) -> Response:
        self._log_wrong(request)
        return replace(self._unauthorized("wrong token"), delay=WRONG_TOKEN_DELAY)

    def _unauthorized(self, text: str) -> Response:
        return sentence(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": 'Bearer realm="edgemeta"'})

    def _log_wrong(self, request: Request) -> None:
        now = time.monotonic()
        if now - self._logged >= LOG_EVERY:
            self._logged = now
            log.warning("page: wrong token from %s", request.peer or "an unknown address")


def is_this_machine(host: str) -> bool:
    """Return whether a Host header names this machine: `localhost` or a loopback address, with any port."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _same(given: str, expected: str) -> bool:
    """Compare in a time that does not depend on where the texts differ."""
    return hmac.compare_digest(given.encode(), expected.encode())
