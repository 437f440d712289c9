"""Sources of frames: one file per kind, chosen by the address in the config."""
