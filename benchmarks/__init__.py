"""Programs that measure speed and accuracy, beside peers. Results are in results/."""
