"""Scheme `incremental`: weights become powers of two in steps, the others retrained; nothing is left to multiply."""
