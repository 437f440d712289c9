"""Requests are parsed strictly: valid or refused."""

from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.web.request import MAX_BODY, Request, RequestError, parse


def test_a_request_as_a_browser_sends_it() -> None:
    request = parse(
        b"GET /frame/front.jpg?17 HTTP/1.1\r\nHost: 127.0.0.1:8480\r\nACCEPT:  image/webp \r\nAccept: */*\r\n"
        b"Cookie: other=1; edgemeta-dev=abc=; edgemeta-dev=second\r\n\r\n",
        "10.0.0.7",
    )
    assert (request.method, request.path, request.peer) == ("GET", "/frame/front.jpg", "10.0.0.7")
    assert request.headers["host"] == "127.0.0.1:8480"
    assert request.headers["accept"] == "image/webp"
    assert request.cookie("edgemeta-dev") == "abc="
    assert request.cookie("edgemeta") is None
    assert request.length == 0


@pytest.mark.parametrize(
    "head",
    [
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"get / HTTP/1.1\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\n\r\n",
        b"GET /\xc3\xa4 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n folded: b\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    ],
)
def test_invalid_requests(head: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse(head)
    assert caught.value.status is HTTPStatus.BAD_REQUEST
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": str(MAX_BODY + 1)}, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
        ({"content-length": "-1"}, HTTPStatus.BAD_REQUEST),
        ({"content-length": "1, 1"}, HTTPStatus.BAD_REQUEST),
        ({"content-length": "\u0661"}, HTTPStatus.BAD_REQUEST),
        ({"content-length": "9" * 30}, HTTPStatus.BAD_REQUEST),
        ({"transfer-encoding": "chunked"}, HTTPStatus.NOT_IMPLEMENTED),
    ],
)
def test_refused_bodies(headers: dict[str, str], status: HTTPStatus) -> None:
    with pytest.raises(RequestError) as caught:
        _ = Request("POST", "/sign-in", headers).length
    assert caught.value.status is status


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda tail: b"GET / HTTP/1.1\r\n" + tail))
def test_any_bytes_are_a_request_or_refused(head: bytes) -> None:
    try:
        request = parse(head)
    except RequestError:
        return
    assert request.path.startswith("/")
    assert all(name == name.lower() for name in request.headers)
    assert not any(letter in value for value in request.headers.values() for letter in "\r\n\0")
