"""Reads pictures with boxes in the forms in which people have them."""
