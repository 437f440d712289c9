"""Objects with an identity over frames: integers in, integers out, exact and the same everywhere. No clock."""
