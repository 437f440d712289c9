"""Networks of others by name: where they are, how they are imported, and what comes of it."""
