"""Objects with boxes, from the outputs of a detection's levels."""
