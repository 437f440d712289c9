"""Measures networks on labelled images: accuracy, precision of boxes, confidence of scores, rejection."""
