"""The C++ library as a backend: AVX-512 VNNI, AVX2 or portable code."""
