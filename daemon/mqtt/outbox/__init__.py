"""Store and forward: messages wait here, in order and bounded, until the broker has acknowledged them."""
