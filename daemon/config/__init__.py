"""The config: its records, and the file they are read from."""
