"""Search over the bits of a network's layers: Kondo and Yamashita's objective, or several objectives, on Optuna."""
