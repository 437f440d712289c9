"""Networks of power-of-two weights as logic: SystemVerilog engines, their generator, simulation and synthesis."""
