"""Number formats, and how a PyTorch network trains and runs under them."""
