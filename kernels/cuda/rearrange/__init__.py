"""Copies of elements: concat, and layers that move the elements of one tensor."""
