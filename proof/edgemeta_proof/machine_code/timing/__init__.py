"""Time of a launch, simulated from its machine code: issue, stalls, scoreboards, units, caches."""
