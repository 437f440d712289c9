"""Network cameras: one process per stream opens, reads and decodes it; the service takes finished pictures."""
