"""The C++ library on emulated ARM processors: built by Debian's cross compilers, run by qemu."""
