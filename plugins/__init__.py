"""Backends: one folder per way to run a model. `api` is the contract, `registry` finds them by name."""
