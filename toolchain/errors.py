"""Errors of the workshop: one class per kind of bad input.

Each message is one sentence that names the file (or argument), what was found and what was
expected; the command line prints it as one line.
"""

from edgemeta.model.errors import EdgemetaError


class ToolchainError(EdgemetaError, ValueError):
    """Bad input to a workshop verb; the text of the error is complete by itself."""


class DataError(ToolchainError):
    """A data set file that can't be read as one."""


class RecipeError(ToolchainError):
    """A training recipe with a missing, unknown or impossible entry."""


class CheckpointError(ToolchainError):
    """A checkpoint that is damaged or belongs to another recipe or data set."""


class FloatModelError(ToolchainError):
    """A float model file or graph that does not hold together."""


class QuantizeError(ToolchainError):
    """A float model or calibration set that can't be quantized as asked."""


class MissingExtraError(ToolchainError):
    """A part of the workshop needs a package that is not installed."""
