"""The ends of detection networks: which convolutions a file's own decoding reads, and what they mean."""
