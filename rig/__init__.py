"""Real parts for tests and measurements: broker, proxies, camera, service manager, subscriber with an audit."""
