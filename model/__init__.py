"""The quantized network: layers, fixed point, reference interpreter and file format. NumPy only.

Everything that a backend must reproduce bit for bit is defined here and nowhere else; `docs/integer-semantics.md`
explains the same formulas.
"""
