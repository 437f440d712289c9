"""Where frames come from: one file per kind of source, chosen by the address in the config."""
