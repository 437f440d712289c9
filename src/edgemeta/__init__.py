"""edgemeta: camera frames become MQTT messages through integer networks that give the same bits everywhere."""

__version__ = "0.1.0"
