"""FFmpeg's errors as sentences: why a stream cannot be opened or has ended.

FFmpeg's own texts contain the address with its password, so none of them is passed on, only its numbers.
"""

import errno
import re
import socket
from collections.abc import Sequence
from typing import TypeAlias

import av.error

from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.sources.stream.messages import LARGEST_PIXELS, Failed, Request

LogLines: TypeAlias = Sequence[tuple[int, str, str]]
"""FFmpeg's log: level, component, text."""


class NoVideoError(Exception):
    """The stream has no video; the text names what it has."""


class TooLargeError(Exception):
    """A picture or part exceeds a limit; the text completes "stream ADDRESS …"."""


class EndedError(Exception):
    """The server has ended the stream."""


NO_VIDEO = "gives no video that can be decoded"

STATUSES = {
    400: "did not understand the request (400 Bad Request)",
    401: "refused the login (401 Unauthorized), expected the camera's user name and password",
    403: "refused the access (403 Forbidden), expected a user with the right to view",
    404: "has no such stream (404 Not Found), expected the path of a stream",
    429: "refused the request for now (429 Too Many Requests)",
    461: "refused the `transport` of the frames (461 Unsupported Transport), expected another: tcp, udp or multicast",
}
LATE = (401, 403, 429)
"""Statuses after which more attempts would do harm."""

UNREACHABLE = (errno.ENETUNREACH, errno.EHOSTUNREACH)

_ERRORS = {
    av.error.HTTPBadRequestError: 400,
    av.error.HTTPUnauthorizedError: 401,
    av.error.HTTPForbiddenError: 403,
    av.error.HTTPNotFoundError: 404,
}
_STATUS = re.compile(r"(?:method \w+ failed:|HTTP error) (\d{3})")
_SIZE = re.compile(r"[Pp]icture size (\d+)x(\d+)")
_UNKNOWN = re.compile(r"Failed to resolve hostname .*: (.+)")
_CUT = re.compile(r"Stream ends prematurely")
_CERTIFICATES = {
    "failed verification": "the certificate of an unknown authority, or one that is not valid at this time",
    "does not match hostname": "a certificate for another name",
}


def failed(error: Exception, log: LogLines, request: Request, opened: bool) -> Failed:
    """Return what a stream's failure amounts to. opened: whether it had been open. Raises an unexpected error again."""
    text = " ".join(line for _, _, line in log)
    if (size := _SIZE.search(text)) and int(size[1]) * int(size[2]) > LARGEST_PIXELS:
        millions = f"{LARGEST_PIXELS / 1e6:g} million pixels"
        return Failed(f"gives pictures of {size[1]}x{size[2]} pixels, expected at most {millions}", Retry.SOON.value)
    if isinstance(error, TooLargeError | NoVideoError):
        return Failed(str(error), Retry.SOON.value)
    if isinstance(error, EndedError) or (opened and isinstance(error, av.error.FFmpegError)):
        return Failed("gives no more frames", Retry.RESUME.value)
    for said, shown in _CERTIFICATES.items():
        if said in text:
            return Failed(f"has {shown}, expected `tls.ca_file` or `tls.verify: false`", Retry.SOON.value)
    status = next((code for kind, code in _ERRORS.items() if isinstance(error, kind)), None)
    if status is None and (found := _STATUS.search(text)):
        status = int(found[1])
    if status is not None:
        reason = STATUSES.get(status, f"answered with the status {status}")
        return Failed(reason, (Retry.LATE if status in LATE else Retry.SOON).value)
    reason, unanswered = _reason(error, text, request)
    return Failed(reason, Retry.SOON.value, unanswered)


def _reason(error: Exception, text: str, request: Request) -> tuple[str, bool]:
    """Return the reason, and whether the server gave no answer at all."""
    match error:
        case socket.gaierror() | UnicodeError():
            cause = error.strerror if isinstance(error, OSError) else error
            return _unknown_host(request, cause), False
        case av.error.ExitError() | TimeoutError():
            return f"did not answer for {request.timeout:g} s", True
        case ConnectionRefusedError():
            return "refused the connection: nothing serves this port", False
        case ConnectionResetError() | BrokenPipeError():
            return "closed the connection before it answered", False
        case av.error.HTTPServerError():
            return "has an error of its own (status 5xx)", False
        case av.error.InvalidDataError() | av.error.EOFError() | av.error.DecoderNotFoundError():
            return NO_VIDEO, False
    if unknown := _UNKNOWN.search(text):
        return _unknown_host(request, unknown[1].strip()), False
    if _CUT.search(text):
        return NO_VIDEO, False
    if isinstance(error, OSError):
        return f"cannot be opened: {error.strerror or 'unknown error'}", error.errno in UNREACHABLE
    raise error


def _unknown_host(request: Request, cause: object) -> str:
    return f"has an unknown host, {request.host!r} ({cause})"
