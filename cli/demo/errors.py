"""What can go wrong with a demo."""

from edgemeta.model.errors import EdgemetaError


class DemoError(EdgemetaError):
    """The demo cannot run or had to stop, with the reason in one sentence."""
