"""The messages as others see them: records, channels, commands, encoding, JSON Schema, AsyncAPI. No input or output."""
