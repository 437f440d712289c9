"""CPU kernels: one C++ library with AVX-512 VNNI, AVX2 and portable code, and its Python bindings."""
