"""Machine code without a GPU: read, run instruction by instruction, counted, its time predicted."""
