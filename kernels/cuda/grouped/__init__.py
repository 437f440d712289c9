"""Convolutions of several groups, dilated convolutions, and weights of more than 16 bits."""
