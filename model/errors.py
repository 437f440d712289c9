"""Base class of all errors that a user can cause; their text is one sentence and is printed without a traceback."""


class EdgemetaError(Exception):
    """An error in the user's input or environment; the text states what was found and what was expected.

    exit_code: exit status of a command that fails with it; subclasses may set another.
    """

    exit_code = 1


class ModelError(EdgemetaError):
    """A model or model file that is malformed, unsafe or newer than this program."""


class KnownNetworkError(EdgemetaError):
    """A known network that is not there, or not what was expected."""


class FrameError(EdgemetaError):
    """A camera frame or image that cannot be used."""
