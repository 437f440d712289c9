"""`edgemeta fleet`: the devices that publish at one broker."""
