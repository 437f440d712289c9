"""The CPU kernels: one C++ library with AVX-512 VNNI, AVX2 and portable paths, and the module that loads it."""
