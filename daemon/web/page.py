"""The page of one service, put together from its config."""

from collections.abc import Callable

from edgemeta.daemon.clock import Clock
from edgemeta.daemon.config.whole import Config
from edgemeta.daemon.secret import token_of
from edgemeta.daemon.web.access import Access
from edgemeta.daemon.web.pictures import Pictures
from edgemeta.daemon.web.seen import Seen
from edgemeta.daemon.web.server import WebServer
from edgemeta.daemon.web.site import Site
from edgemeta.daemon.web.state import Observer, Report


def make_page(
    config: Config, report: Report, seen: Seen, clock: Clock, crashed: Callable[[BaseException], None]
) -> WebServer:
    """Make a service's page, not started. Raises SecretError where the token is no longer where the config says."""
    web = config.web
    access = Access(token_of(web), config.device)
    site = Site(access, report, Observer(report, seen, config, clock), Pictures(seen, web.picture_rate))
    return WebServer(web.host, web.port, site, crashed)
