"""Access control of the page."""

import logging
from http import HTTPStatus
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.daemon.web.access import WRONG_TOKEN_DELAY, Access, is_this_machine
from edgemeta.daemon.web.request import Request
from edgemeta.daemon.web.response import Response

TOKEN = "kQ3.v9-Zp_81~xYw+/="


def get(**headers: str) -> Request:
    return Request("GET", "/api/state", headers, peer="10.0.0.7")


def sign_in(access: Access, token: str) -> Response | None:
    return access.sign_in(Request("POST", "/sign-in", {}, peer="10.0.0.7", body=urlencode({"token": token}).encode()))


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8480", "127.0.0.1", "127.0.0.1:8480", "127.9.9.9:1", "[::1]:8480", "[::1]"]
)
def test_names_of_this_machine(host: str) -> None:
    assert is_this_machine(host)
    assert Access(None, "dev").refusal(get(host=host)) is None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8480",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "192.168.1.5:8480",
        "0.0.0.0:8480",
        "127.0.0.1:8480:80",
        "localhost:x",
        "[::1",
        "::1",
        "2130706433",
    ],
)
def test_other_names_are_refused_without_a_token(host: str) -> None:
    refusal = Access(None, "dev").refusal(get(host=host))
    assert refusal is not None
    assert refusal.status is HTTPStatus.MISDIRECTED_REQUEST


@settings(max_examples=30)
@given(st.from_regex(r"[a-z0-9-]{1,20}(\.[a-z0-9-]{1,20}){1,3}\.[a-z]{2,10}(:[0-9]{1,5})?", fullmatch=True))
def test_no_internet_name_is_a_name_of_this_machine(host: str) -> None:
    assert not is_this_machine(host)


def test_without_a_host_header() -> None:
    assert Access(None, "dev").refusal(get()) is not None


def test_a_program_sends_the_token() -> None:
    access = Access(TOKEN, "dev")
    assert access.refusal(get(authorization=f"Bearer {TOKEN}", host="anything.example")) is None
    assert access.refusal(get(authorization=f"bearer  {TOKEN} ")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer "},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN.lower()}"},
        {"authorization": "Bearer \xfc\xff"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"cookie": f"edgemeta-dev={TOKEN}"},
        {"cookie": "edgemeta-dev="},
        {"host": "127.0.0.1"},
    ],
)
def test_everything_else_is_refused_if_a_token_is_configured(headers: dict[str, str]) -> None:
    refusal = Access(TOKEN, "dev").refusal(get(**headers))
    assert refusal is not None
    assert refusal.status is HTTPStatus.UNAUTHORIZED
    assert refusal.headers["WWW-Authenticate"] == 'Bearer realm="edgemeta"'
    assert TOKEN.encode() not in refusal.body


def test_only_the_answer_to_a_wrong_token_is_delayed() -> None:
    access = Access(TOKEN, "dev")
    wrong, none = access.refusal(get(authorization="Bearer guess")), access.refusal(get())
    assert wrong is not None
    assert none is not None
    assert (wrong.delay, none.delay) == (WRONG_TOKEN_DELAY, 0.0)


def cookie_of(answer: Response | None) -> str:
    assert answer is not None
    assert answer.status is HTTPStatus.SEE_OTHER
    assert answer.headers["Location"] == "./"
    pair, *flags = answer.headers["Set-Cookie"].split("; ")
    assert flags == ["Path=/", "HttpOnly", "SameSite=Strict"]
    return pair


def test_a_browser_signs_in_once_and_keeps_a_cookie_without_the_token() -> None:
    access = Access(TOKEN, "dev")
    pair = cookie_of(sign_in(access, f" {TOKEN}\n"))
    assert TOKEN not in pair
    assert access.refusal(get(cookie=f"other=1; {pair}")) is None
    assert Access(TOKEN, "dev").refusal(get(cookie=pair)) is None  # the service was restarted
    assert Access(TOKEN + "x", "dev").refusal(get(cookie=pair)) is not None  # the token was changed
    assert Access(TOKEN, "other").refusal(get(cookie=pair)) is not None  # another device at this address


def test_a_wrong_sign_in_gets_no_cookie() -> None:
    access = Access(TOKEN, "dev")
    assert sign_in(access, "guess") is None
    assert sign_in(access, "") is None
    assert access.sign_in(Request("POST", "/sign-in", {}, body=b"\xff=\xfe&&&=")) is None


def test_without_a_token_there_is_nothing_to_sign_in_to() -> None:
    answer = sign_in(Access(None, "dev"), "anything")
    assert answer is not None
    assert answer.status is HTTPStatus.NOT_FOUND


def test_wrong_tokens_are_logged_once_a_minute_and_never_shown(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    access = Access(TOKEN, "dev")
    with caplog.at_level(logging.DEBUG, "edgemeta"):
        for _ in range(100):
            access.refusal(get(authorization="Bearer geheim"))
            sign_in(access, "geheim")
        assert caplog.messages == ["page: wrong token from 10.0.0.7"]
        now += 60
        sign_in(access, "geheim")
    assert len(caplog.messages) == 2
    assert "geheim" not in caplog.text
