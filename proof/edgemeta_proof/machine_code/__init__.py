"""Analysis of machine code without a GPU: disassembly, execution of control flow, counts, predicted time."""
