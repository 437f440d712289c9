"""Convolutions and dense layers by popcount over bit planes."""
