"""Runs models as netlists of the generator in `kernels.fpga`."""
