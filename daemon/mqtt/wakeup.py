"""Ends a thread's wait from other threads."""

import os


class Wakeup:
    """An event that a thread can wait for with `poll`, beside sockets: readable once `set` was called.

    One system call wakes the thread, however often `set` is called until it runs. It calls `clear` first and looks for
    work afterwards, so that nothing is overlooked: what was added before `set` is there after `clear`.
    """

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._is_set = False

    def fileno(self) -> int:
        """Descriptor to poll."""
        return self._descriptor

    def set(self) -> None:
        """Wake the waiting thread. Any thread may call."""
        if not self._is_set:
            self._is_set = True
            os.eventfd_write(self._descriptor, 1)

    def clear(self) -> None:
        """Make it unreadable again. Only the waiting thread calls, when the descriptor is readable."""
        os.eventfd_read(self._descriptor)
        self._is_set = False  # after the read: the other way round, the byte of a `set` between the two would be lost

    def __del__(self) -> None:
        os.close(self._descriptor)  # only now: a thread that calls `set` holds a reference
