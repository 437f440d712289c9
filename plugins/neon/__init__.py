"""The C++ library as the backend of ARM processors with NEON."""
