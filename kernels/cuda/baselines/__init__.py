"""What our kernels are compared with: the design of the paper, and float32."""
