"""Creates the live page of a service from its config."""

from collections.abc import Callable

from edgemeta.daemon.collect.collection import CollectionService, unavailable_because
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.secrets import token_of
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.web.access import Access
from edgemeta.daemon.web.jpeg import JpegEncoder
from edgemeta.daemon.web.panel import Panel
from edgemeta.daemon.web.recent_frames import RecentFrames
from edgemeta.daemon.web.routes import Routes
from edgemeta.daemon.web.server import WebServer
from edgemeta.daemon.web.state import Observer, ServiceView


def make_page(
    config: Config,
    service: ServiceView,
    recent: RecentFrames,
    clock: Clock,
    collection: CollectionService | None,
    on_fatal: Callable[[BaseException], None],
) -> WebServer:
    """Create a service's page, not started. Raises SecretError if the configured token can no longer be read."""
    web = config.web
    access = Access(token_of(web), config.device)
    panel = Panel(access, collection, unavailable_because(config), config.device)
    routes = Routes(access, service, Observer(service, recent, config, clock), JpegEncoder(recent, web.max_fps), panel)
    return WebServer(web.host, web.port, routes, on_fatal)
