"""The message formats: records, channels, commands, encoding, JSON Schema, AsyncAPI. No input or output."""
