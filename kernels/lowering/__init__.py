"""From a model to steps, for every backend that compiles: fusion, and requantization proved to be a line."""
