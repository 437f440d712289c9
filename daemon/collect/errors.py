"""The error of collecting and teaching."""

from edgemeta.model.errors import EdgemetaError


class CollectError(EdgemetaError):
    """Something about collected pictures that cannot be done, with the reason in one sentence."""
