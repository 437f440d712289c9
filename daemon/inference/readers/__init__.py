"""From a model's outputs to the fields of a frame message, one reader per task, and the state over several frames."""
