"""From a frame to a result: worker, pipeline, loaded models, labels, smoothing; swaps of models."""
