"""Max pooling as a layer of its own: the example of docs/kernels.md."""
