"""Cameras that speak ONVIF: which there are on the network, and the addresses of their streams."""
