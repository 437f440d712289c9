"""`edgemeta teach`: a model for your own pictures, learnt on the device in seconds, without PyTorch."""
