"""The one root of every error that a user can cause: its text is one sentence, fit to be printed as it is."""


class EdgemetaError(Exception):
    """A fault in the user's input or surroundings, told in one sentence that names what was found and expected.

    `exit_code` is the exit status of a command that it ends; subclasses may set another.
    """

    exit_code = 1


class ModelError(EdgemetaError):
    """A model, or the file that holds one, that is malformed, unsafe or newer than this program."""


class FrameError(EdgemetaError):
    """A camera frame or image that cannot be used."""
