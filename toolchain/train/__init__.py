"""Training with PyTorch (extra `train`): teachers, distilled student, export."""
