"""The camera thread: what a source is, frame checks and filters, the newest frame of each camera."""
