"""From a model to steps, for every backend that compiles: fusion, and requantization as proved float lines."""
