"""Logic of engines: counted by Yosys, and predicted by a cost model."""
