"""States of the connection to the broker."""

from enum import Enum


class BrokerState(str, Enum):
    """Connected, or the reason why not. Connected means: accepted, and messages are acknowledged in time.

    Slow: acknowledged, but messages come faster than the connection takes them.
    """

    CONNECTING = "connecting"
    CONNECTED = "connected"
    SLOW = "slow"
    UNACKNOWLEDGED = "unacknowledged"
    UNREACHABLE = "unreachable"
    REFUSED_LOGIN = "refused_login"
    BAD_CERTIFICATE = "bad_certificate"
    CLIENT_ID_TAKEN = "client_id_taken"
    REFUSED = "refused"
    LOST = "lost"
