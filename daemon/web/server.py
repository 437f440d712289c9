"""The HTTP server: one thread, one request per connection, and a limit on every resource of a client.

Idle connections are closed for new ones, so that no client can exclude others by holding connections. An address that
cannot be used does not stop the service: the error is logged, and the server retries.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from edgemeta.daemon.runtime.backoff import Backoff
from edgemeta.daemon.runtime.threads import guarded_thread
from edgemeta.daemon.web.background import Background
from edgemeta.daemon.web.request import MAX_HEAD, Request, RequestError, parse
from edgemeta.daemon.web.response import Deferred, Response, Stream, head_of, sentence
from edgemeta.daemon.web.routes import Routes

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 64
"""Most connections at one time."""

MAX_STREAMS = 8
"""Most open pages at one time."""

REQUEST_TIMEOUT = 5.0
"""Seconds for a client to send its request."""

SEND_TIMEOUT = 10.0
"""Seconds for a client to receive an answer, or one event."""

DISK_TIMEOUT = 20.0
"""Seconds for an answer that needs the disk."""

SEND_BUFFER = 65_536
"""Size of the kernel's send buffer for a slow client, in bytes."""

LINGER = 1.0
"""Seconds in which the rest of a refused request is read and discarded, so that the refusal arrives."""

INITIAL_DELAY, MAX_DELAY = 1.0, 30.0
"""Seconds before the server retries to listen: first and longest delay."""

ACCEPT_ITERATIONS = 5
"""Iterations of the event loop after which the last accepted connection has its task. If asyncio's server is closed or
its tasks are cancelled earlier, the connection's socket stays open."""


class WebServer:
    """Serves the routes at an address, from `start` to `stop`."""

    def __init__(self, host: str, port: int, routes: Routes, on_fatal: Callable[[BaseException], None]) -> None:
        self._host, self._port = host, port
        self._routes = routes
        self._thread = guarded_thread("page", self._run, on_fatal)
        self._background = Background(on_fatal)
        self._connections: dict[asyncio.Task[None], bool] = {}  # whether the request was received; oldest first
        self._streams = 0
        self.problem: str | None = None
        """Reason why nothing is served; None while the page is."""

    def start(self) -> None:
        """Start to listen."""
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Close every connection and stop the thread; does nothing if it never started."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop has just ended
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(timeout)
        self._background.stop()

    def _run(self) -> None:
        try:
            self._loop.set_exception_handler(_log_error)
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._listen()
        if server is None:
            return
        host, port = server.sockets[0].getsockname()[:2]
        log.info("page at http://%s:%d/", f"[{host}]" if ":" in host else host, port)
        await self._stopping.wait()
        for listener in server.sockets:
            self._loop.remove_reader(listener.fileno())
        for _ in range(ACCEPT_ITERATIONS):
            await asyncio.sleep(0)
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the connections handle their end

    async def _listen(self) -> asyncio.Server | None:
        """Listen as soon as the address is available; None when stopping."""
        backoff = Backoff(INITIAL_DELAY, MAX_DELAY)
        while not self._stopping.is_set():
            try:
                server = await asyncio.start_server(
                    self._serve_connection, self._host, self._port, limit=MAX_HEAD, backlog=MAX_CONNECTIONS
                )
            except OSError as error:
                self._set_problem(f"page not served: {self._host} port {self._port}: {_reason(error)}")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff.next())
            else:
                self.problem = None
                return server
        return None

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            log.error("%s; retrying", problem)
        self.problem = problem

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request; all resources are released, whatever the client does."""
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = False
        self._make_room()
        try:
            writer.transport.set_write_buffer_limits(0)  # `drain` then waits until the kernel has everything
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            await self._handle(task, reader, writer)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
            log.debug("page: connection closed: %r", error)
        finally:
            writer.transport.abort()
            del self._connections[task]

    def _make_room(self) -> None:
        """If there are too many connections, close the one that has been idle for longest."""
        if len(self._connections) > MAX_CONNECTIONS:
            next(task for task, received in self._connections.items() if not received).cancel()

    async def _handle(
        self, task: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            request = await asyncio.wait_for(_read_request(reader, writer), REQUEST_TIMEOUT)
        except RequestError as error:
            await _send(writer, sentence(error.status, str(error)))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_discard(reader), LINGER)
            return
        self._connections[task] = True
        answer = await self._answer(request)
        if isinstance(answer, Response):
            await asyncio.sleep(answer.delay)
            await _send(writer, answer, with_body=request.method != "HEAD")
        elif request.method == "HEAD":
            await _send(writer, answer)
        else:
            await self._stream(writer, answer)

    async def _answer(self, request: Request) -> Response | Stream:
        try:
            answer = self._routes.answer(request)
            if isinstance(answer, Deferred):
                return await asyncio.wait_for(self._background.make(answer.make), DISK_TIMEOUT)
            return answer
        except asyncio.TimeoutError:
            return sentence(HTTPStatus.SERVICE_UNAVAILABLE, f"the disk did not answer within {DISK_TIMEOUT:g} s")
        except Exception:
            # A request must not stop the service: the error is logged, and the client gets status 500.
            log.exception("page: error while answering %s", request.path)
            return sentence(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error, see the service's log")

    async def _stream(self, writer: asyncio.StreamWriter, stream: Stream) -> None:
        """Send events until the client disconnects or stops reading."""
        if self._streams >= MAX_STREAMS:
            await _send(writer, sentence(HTTPStatus.SERVICE_UNAVAILABLE, f"{MAX_STREAMS} pages are already open"))
            return
        self._streams += 1
        try:
            writer.write(head_of(stream))
            cursor = stream.cursor
            while not self._stopping.is_set():  # before Python 3.12 `wait_for` may swallow the cancellation
                event, cursor = stream.after(cursor)
                writer.write(event)
                await asyncio.wait_for(writer.drain(), SEND_TIMEOUT)
                await asyncio.sleep(stream.interval)
        finally:
            self._streams -= 1


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Request:
    """Read one request. Raises RequestError, and IncompleteReadError if the client disconnects before its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise RequestError(status, f"at most {MAX_HEAD} bytes of headers are accepted") from None
    request = parse(head, str(writer.get_extra_info("peername")[0]))
    body = await reader.readexactly(request.length)
    return replace(request, body=body)


async def _send(writer: asyncio.StreamWriter, answer: Response | Stream, with_body: bool = True) -> None:
    """Send an answer, and close the sending side."""
    body = answer.body if isinstance(answer, Response) and with_body else b""
    writer.write(head_of(answer) + body)
    await asyncio.wait_for(writer.drain(), SEND_TIMEOUT)
    writer.write_eof()


async def _discard(reader: asyncio.StreamReader) -> None:
    while await reader.read(MAX_HEAD):
        pass


def _log_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    log.error("page: %s", context["message"], exc_info=context.get("exception"))


def _reason(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno else str(error)
