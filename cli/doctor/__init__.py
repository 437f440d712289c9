"""`doctor`: what this machine can run, whether it computes rightly and how fast, and what is in the way."""
