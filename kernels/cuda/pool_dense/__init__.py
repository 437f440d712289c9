"""Global average pool and dense layer."""
