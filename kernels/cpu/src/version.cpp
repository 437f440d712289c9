extern "C" __attribute__((visibility("default"))) int em_abi_version() { return 1; }
