"""The command line: one file per group of verbs, nothing but arguments, calls and printing."""
