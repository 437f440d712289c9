"""Max and average pools over windows."""
