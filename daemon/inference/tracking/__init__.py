"""The state of a camera over several frames: its label, or how many of each label are present."""
