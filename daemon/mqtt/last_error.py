"""What paho logs when reading fails: only there is the TLS alert, or the system's error, that ended a connection."""

import logging
import ssl

from edgemeta.daemon.mqtt.state import CLOSED


class LastError(logging.Handler):
    """Keeps the last error of one client, which is given `logger`. text: as paho wrote it; empty before the first."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.text = ""
        self._error: OSError | None = None
        self.logger = logging.Logger("paho", logging.ERROR)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an error."""
        self.text = record.getMessage()
        self._error = next((each for each in record.args or () if isinstance(each, OSError)), None)

    @property
    def socket_error(self) -> str:
        """The system's description of a network error, CLOSED where the other side has closed the connection."""
        if self._error is None or isinstance(self._error, ConnectionError | ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return CLOSED
        return self._error.strerror or str(self._error)
