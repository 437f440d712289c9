"""When a camera whose source failed is opened again."""

from enum import Enum


class Retry(Enum):
    """What kind of failure it was, and so how soon another attempt makes sense."""

    SOON = "soon"
    """After the delays of the camera's `retry`."""
    AT_ONCE = "at once"
    """Nothing is wrong with the source, such as a new size of its frames: at once, if it has run for a while."""
    RESUME = "resume"
    """The same, for a server that has ended the stream, as some do from time to time: a failure only if the next
    attempt fails, too."""
    LATE = "late"
    """The source refuses us, and a camera locks an account after a few refused logins: late, and ever later."""
