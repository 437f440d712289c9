"""Gives a classification its rule of rejection, and shows what the rule does: `edgemeta model reject`."""
