"""Programs for the repository itself: nothing of them is installed."""
