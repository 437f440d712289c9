"""Real parts for tests and benchmarks: broker, network, camera, service under a manager, judging subscriber."""
