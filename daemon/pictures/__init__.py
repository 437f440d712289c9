"""Pictures that leave the device: made as JPEG of bounded size, and published."""
