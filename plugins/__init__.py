"""Backends: one folder per way to run a model. `api` defines the contract, `registry` finds backends by name."""
