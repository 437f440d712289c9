"""From a model to engines, their foldings, memories and Verilog sources."""
