"""The error of everything that asks cameras by ONVIF."""

from edgemeta.model.errors import EdgemetaError


class OnvifError(EdgemetaError):
    """A camera, or a network, that does not answer as ONVIF has it; the text is one sentence."""
