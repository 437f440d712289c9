"""The service: what is built from a config, reloads, commands, the watchdog."""
