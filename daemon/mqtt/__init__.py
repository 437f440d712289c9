"""The link to the broker: connections, subscriptions, publishing; the outbox; Home Assistant."""
