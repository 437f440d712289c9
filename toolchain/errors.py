"""Errors of the toolchain: one class per kind of invalid input.

Each text is one sentence that names the file (or argument), what was found and what was expected; the command line
prints it as one line.
"""

from edgemeta.model.errors import EdgemetaError


class ToolchainError(EdgemetaError, ValueError):
    """Invalid input to a toolchain command; the text is complete."""


class DataError(ToolchainError):
    """A file that cannot be read as a data set."""


class RecipeError(ToolchainError):
    """A training recipe with a missing, unknown or invalid entry."""


class CheckpointError(ToolchainError):
    """A checkpoint that is damaged or belongs to another recipe or data set."""


class ImportedFileError(ToolchainError):
    """A network of another program that cannot be imported."""


class ExportError(ToolchainError):
    """A model that has no form in another program's file."""


class QuantizeError(ToolchainError):
    """A float model or calibration set that cannot be quantized as requested."""


class TeachError(ToolchainError):
    """Pictures or a backbone from which nothing can be taught."""


class SimulateError(ToolchainError):
    """A number format, a rule or a network that cannot be simulated."""


class SearchError(ToolchainError):
    """A search that cannot be run as its file says."""


class MissingExtraError(ToolchainError):
    """A part of the toolchain needs a package that is not installed."""
