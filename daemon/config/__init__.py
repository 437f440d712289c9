"""The config: its records, the loader, error texts, secrets."""
