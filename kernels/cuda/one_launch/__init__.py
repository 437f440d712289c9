"""A whole network as one kernel launch: the layers' device code with barriers of all blocks between them."""
