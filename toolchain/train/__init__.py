"""Training with PyTorch (extra `train`): teacher, cached views, distilled student, export."""
