"""Store and forward: messages wait here, in order and bounded, until the broker has taken them."""
