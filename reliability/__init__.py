"""Acceptance programs: faults injected into a running service, and the fate of its messages."""

import edgemeta as edgemeta  # sets OpenCV's limits, which it reads when it is first imported
