"""How a model takes the place of another while frames flow: a shadow run, the exchange, a trial, or all as before."""
