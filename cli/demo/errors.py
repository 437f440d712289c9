"""Errors of the demo."""

from edgemeta.model.errors import EdgemetaError


class DemoError(EdgemetaError):
    """The demo cannot start or had to stop, with the reason in one sentence."""
