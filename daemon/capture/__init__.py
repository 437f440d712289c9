"""The camera thread: the contract of a source, frame checks and filters, the newest frame of each camera."""
