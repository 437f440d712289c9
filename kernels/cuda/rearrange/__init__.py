"""Copies of elements: concat, slice, upsample, pad, channel shuffle."""
