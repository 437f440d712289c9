"""The precision simulator's C++ library: rounds float32 arrays to number formats."""
