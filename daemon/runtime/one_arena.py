"""One heap for all threads: glibc gives each thread its own, where what one frees is of no use to another."""

import ctypes

M_ARENA_MAX = -8
"""Of glibc's malloc.h."""


def share_one_arena() -> None:
    """Let all threads take memory from one heap, before any thread starts; other C libraries have no such setting.

    A camera's thread frees a picture of 6 MB some times a second: in a heap of its own that is kept for it alone.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(M_ARENA_MAX, 1)
