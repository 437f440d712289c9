"""An MJPEG camera over HTTP that falls silent, or whose packets are lost."""

import ctypes
import socket
import struct
import threading
import time

import cv2
import numpy as np

JPEG = cv2.imencode(".jpg", np.full((48, 64, 3), (0, 0, 255), np.uint8))[1].tobytes()
HEAD = b"HTTP/1.0 200 OK\r\nContent-Type: multipart/x-mixed-replace; boundary=frame\r\n\r\n"
FRAME = b"--frame\r\nContent-Type: image/jpeg\r\nContent-Length: %d\r\n\r\n" % len(JPEG) + JPEG + b"\r\n"

DROP_ALL = struct.pack("HBBI", 0x06, 0, 0, 0)
"""One instruction of a classic packet filter, `return 0`: keep no byte of any packet (<linux/filter.h>)."""

SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
"""Of <asm-generic/socket.h>; the socket module does not name them."""


class LostCamera:
    """Sends a frame every 50 ms to whoever asks, until it falls silent or its packets are lost.

    Packets to it are lost by a packet filter on its sockets, which every Linux lets every user attach; it drops them
    before TCP sees them. Streams of before stay lost for good, as TCP lets them be for long.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections: list[socket.socket] = []
        self._sends = threading.Event()
        self._sends.set()
        self._losses = 0
        self._ending = threading.Event()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/cam"

    def lose(self) -> None:
        self._losses += 1
        code = ctypes.create_string_buffer(DROP_ALL)
        program = struct.pack("HP", 1, ctypes.addressof(code))
        for each in (self._listener, *self.connections):
            each.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)

    def find(self) -> None:
        self._listener.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)

    def pause(self) -> None:
        self._sends.clear()

    def resume(self) -> None:
        self._sends.set()

    def close(self) -> None:
        self._ending.set()
        self.resume()
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ending.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                if not connection.recv(4096):
                    return
                connection.sendall(HEAD)
                losses = self._losses
                while losses == self._losses and not self._ending.is_set():
                    self._sends.wait()
                    connection.sendall(FRAME)
                    time.sleep(0.05)
                self._ending.wait()
            except OSError:
                return
            finally:
                self.connections.remove(connection)
