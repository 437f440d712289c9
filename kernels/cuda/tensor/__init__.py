"""Direct convolutions on int8 matrix instructions."""
