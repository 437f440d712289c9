"""The design of Terakura et al. as their paper describes it, to be counted and measured against; exact, not fast."""
