"""Decomposition of weights into binary bases, as Kondo and Yamashita."""
