"""Threads, time, signals, the log, the socket of the service manager. Knows nothing of cameras or MQTT."""
