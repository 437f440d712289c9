"""The HTTP server: one thread, one request per connection, and a limit on every resource of a client.

No more connections are accepted than the limit: what has not brought a request with the right token is closed for new
ones, so that no client can exclude others, or use up the service's descriptors, by holding connections. An address that
cannot be used, or a lack of descriptors, does not stop the service: the error is logged once, and the server retries.
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

BACKLOG = 4096
"""Most connections that wait in the kernel to be accepted, where its own limit (net.core.somaxconn) is not less. They
take no descriptor. A client that finds the queue full tries again after a second: too late for a health check."""

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

ACCEPT_AGAIN_AFTER = 1.0
"""Seconds before the server retries to accept a connection, for example where no descriptor was left."""


class WebServer:
    """Serves the routes at an address, from `start` to `stop`."""

    def __init__(self, host: str, port: int, routes: Routes, on_fatal: Callable[[BaseException], None]) -> None:
        self._host, self._port = host, port
        self._routes = routes
        self._thread = guarded_thread("page", self._run, on_fatal)
        self._background = Background(on_fatal)
        self._connections: dict[asyncio.Task[None], bool] = {}  # whether it may be closed for a new one; oldest first
        self._streams = 0
        self._listener: socket.socket
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
        listener = await self._listen()
        if listener is None:
            return
        with listener:
            host, port = listener.getsockname()[:2]
            log.info("page at http://%s:%d/", f"[{host}]" if ":" in host else host, port)
            self._listener = listener
            self._accept_more()
            await self._stopping.wait()
            self._loop.remove_reader(listener)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the connections handle their end

    async def _listen(self) -> socket.socket | None:
        """Listen as soon as the address is available; None when stopping."""
        backoff = Backoff(INITIAL_DELAY, MAX_DELAY)
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        while not self._stopping.is_set():
            try:
                listener = socket.create_server((self._host, self._port), family=family, backlog=BACKLOG)
            except OSError as error:
                self._set_problem(f"page not served: {self._host} port {self._port}: {_reason(error)}")
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), backoff.next())
            else:
                self.problem = None
                listener.setblocking(False)
                return listener
        return None

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            log.error("%s; retrying", problem)
        self.problem = problem

    def _accept_more(self) -> None:
        if not self._stopping.is_set():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept one connection; where there are too many, make room first, and accept it when one has ended."""
        if len(self._connections) >= MAX_CONNECTIONS:
            self._loop.remove_reader(self._listener)
            self._make_room()
            return
        try:
            connection, address = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # the client has left
        except OSError as error:
            self._set_problem(f"page: no connection can be accepted: {_reason(error)}")
            self._loop.remove_reader(self._listener)
            self._loop.call_later(ACCEPT_AGAIN_AFTER, self._accept_more)
            return
        self.problem = None
        task = self._loop.create_task(self._serve_connection(connection, str(address[0])))
        self._connections[task] = True
        task.add_done_callback(lambda _: self._forget(task, connection))

    def _make_room(self) -> None:
        """Close the connection that is oldest among those without a request that is being answered, if there is any."""
        for task, may_be_closed in self._connections.items():
            if may_be_closed:
                task.cancel()
                return

    def _forget(self, task: "asyncio.Task[None]", connection: socket.socket) -> None:
        """Release a connection whose task has ended, or was cancelled before it began."""
        connection.close()
        del self._connections[task]
        self._accept_more()

    async def _serve_connection(self, connection: socket.socket, peer: str) -> None:
        """Answer one request; all resources are released, whatever the client does."""
        task = asyncio.current_task()
        assert task is not None
        transport: asyncio.WriteTransport | None = None
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            reader, writer = await asyncio.open_connection(sock=connection, limit=MAX_HEAD)
            transport = writer.transport
            transport.set_write_buffer_limits(0)  # `drain` then waits until the kernel has everything
            await self._handle(task, reader, writer, peer)
        except (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError) as error:
            log.debug("page: connection closed: %r", error)
        finally:
            if transport is not None:
                transport.abort()

    async def _handle(
        self, task: "asyncio.Task[None]", reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str
    ) -> None:
        try:
            request = await asyncio.wait_for(_read_request(reader, peer), REQUEST_TIMEOUT)
        except RequestError as error:
            await _send(writer, sentence(error.status, str(error)))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(_discard(reader), LINGER)
            return
        self._connections[task] = False
        answer = await self._answer(request)
        if isinstance(answer, Response):
            if answer.delay:  # many clients with wrong tokens exclude nobody
                self._connections[task] = True
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


async def _read_request(reader: asyncio.StreamReader, peer: str) -> Request:
    """Read one request. Raises RequestError, and IncompleteReadError if the client disconnects before its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        raise RequestError(status, f"at most {MAX_HEAD} bytes of headers are accepted") from None
    request = parse(head, peer)
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
