"""Faults of broker, network, cameras, disk and service, one file for each part."""

from rig.faults import broker, camera, disk, model, service
from rig.faults.fault import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "broker", "camera", "disk", "model", "service"]
