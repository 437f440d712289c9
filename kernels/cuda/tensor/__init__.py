"""Direct convolutions with int8 matrix instructions."""
