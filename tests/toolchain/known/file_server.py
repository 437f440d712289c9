"""A server of files on loopback, with what goes wrong with servers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Served:
    """files: content by path. breaks: bytes after which an answer ends. ranges: whether parts are given.

    asked: path and range of each request.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    breaks: int | None = None
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""


@contextmanager
def serving() -> Iterator[Served]:
    served = Served()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            served.asked.append((self.path, wanted))
            content = served.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            first = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and served.ranges else 0
            self.send_response(206 if first else 200)
            self.send_header("Content-Length", str(len(content) - first))
            self.end_headers()
            self.wfile.write(content[first : served.breaks])

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
