"""Downloads of files whose size is known: bounded, and going on where an earlier one ended.

`python -m edgemeta.model.http_file ADDRESS BYTES FILE` does it in a process of its own, and does not give up while the
server may come back: it says on standard error, in lines, how much there is, or what is in the way, and prints an empty
JSON object at the end.
"""

import sys
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from edgemeta.model.errors import EdgemetaError

TIMEOUT_S = 30.0
"""Longest time without an answer, and without another byte of it."""
_CHUNK = 1 << 16
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


class DownloadError(EdgemetaError):
    """A download that failed, in one sentence.

    goes_on: whether it broke off, and the next attempt goes on. passes: whether that may have success.
    """

    def __init__(self, reason: str, goes_on: bool = False, passes: bool = False) -> None:
        super().__init__(reason)
        self.goes_on, self.passes = goes_on, passes or goes_on


def download(address: str, size: int, content: BinaryIO, report: Callable[[int, int], None]) -> None:
    """Append what is missing to what was downloaded before, or begin again where the server gives the whole only.

    address: http or https. size: bytes of the whole; more are not read. report: called with the bytes that are there,
    and `size`. Raises DownloadError; OSError where it cannot be written.
    """
    done = content.tell()
    if done >= size:
        return
    request = Request(address, headers={"Range": f"bytes={done}-"} if done else {})  # noqa: S310 (http and https only)
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            if done and answer.status != 206:
                content.truncate(0)
                done = 0
            _copy(answer, done, size, content, report)
    except HTTPError as error:
        what = "the file is no longer there" if error.code in (404, 410) else "the server refuses it"
        raise DownloadError(f"{address}: {what} ({error.code} {error.reason})", passes=error.code >= 500) from None
    except URLError as error:
        raise DownloadError(f"{address}: cannot be reached ({error.reason})", passes=True) from None
    except (HTTPException, TimeoutError, ConnectionError) as error:
        reason = error or type(error).__name__
        text = f"{address}: broke off after {content.tell():,} of {size:,} bytes ({reason})"
        raise DownloadError(text, goes_on=True) from None


def _copy(answer: HTTPResponse, done: int, size: int, content: BinaryIO, report: Callable[[int, int], None]) -> None:
    while chunk := _read(answer):
        done += len(chunk)
        if done > size:
            content.truncate(0)
            raise DownloadError(f"{answer.url}: is another file, of more than {size:,} bytes: nothing is kept")
        content.write(chunk)
        report(done, size)
    content.flush()
    if done < size:
        raise ConnectionError("the server ended it")


def _read(answer: HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK)
    except (OSError, HTTPException) as error:
        raise ConnectionError(str(error) or type(error).__name__) from None


def _main(address: str, size: str, file: str) -> None:
    def line(done: int, total: int) -> None:
        print(f"{100 * done // total}%", file=sys.stderr, flush=True)

    pause = _FIRST_PAUSE_S
    while True:
        try:
            with Path(file).open("ab") as content:
                download(address, int(size), content, line)
        except DownloadError as error:
            if not error.passes:
                sys.exit(str(error))
            print(error, file=sys.stderr, flush=True)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        except OSError as error:
            sys.exit(f"{file}: cannot be written: {error.strerror or error}")
        else:
            print("{}")
            return


if __name__ == "__main__":
    _main(*sys.argv[1:])
