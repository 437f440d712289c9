"""The C++ library for x86-64 and any other CPU, and its ctypes launcher."""
