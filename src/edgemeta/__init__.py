"""edgemeta: camera frames become MQTT messages through integer networks that give the same bits everywhere."""

import os

__version__ = "0.1.0"

MAX_PIXELS = 1 << 27
"""Of an image file; OpenCV reads the limit when it is first imported, and refuses a file that claims more."""
os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(MAX_PIXELS))
