"""The page of one service, put together from its config."""

from collections.abc import Callable

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.secrets import token_of
from edgemeta.daemon.runtime.clock import Clock
from edgemeta.daemon.web.access import Access
from edgemeta.daemon.web.jpeg import JpegEncoder
from edgemeta.daemon.web.recent_frames import RecentFrames
from edgemeta.daemon.web.routes import Routes
from edgemeta.daemon.web.server import WebServer
from edgemeta.daemon.web.state import Observer, Report


def make_page(
    config: Config, report: Report, seen: RecentFrames, clock: Clock, on_fatal: Callable[[BaseException], None]
) -> WebServer:
    """Make a service's page, not started. Raises SecretError where the token is no longer where the config says."""
    web = config.web
    access = Access(token_of(web), config.device)
    site = Routes(access, report, Observer(report, seen, config, clock), JpegEncoder(seen, web.max_fps))
    return WebServer(web.host, web.port, site, on_fatal)
