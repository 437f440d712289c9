"""A camera that speaks ONVIF, on loopback: SOAP over HTTP with a login, and an answer to WS-Discovery."""

import base64
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GROUP, PORT = "239.255.255.250", 3702
USER, PASSWORD = "viewer", "ge heim"
STREAMS = {"main": (1920, 1080, 25), "sub": (640, 360, 10), "mobile": (320, 180, 5)}

ENVELOPE = """<?xml version="1.0" encoding="utf-8"?>
<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="http://schemas.xmlsoap.org/ws/2004/08/addressing"
 xmlns:d="http://schemas.xmlsoap.org/ws/2005/04/discovery" xmlns:tds="http://www.onvif.org/ver10/device/wsdl"
 xmlns:trt="http://www.onvif.org/ver10/media/wsdl" xmlns:tt="http://www.onvif.org/ver10/schema"
 xmlns:dn="http://www.onvif.org/ver10/network/wsdl" xmlns:ter="http://www.onvif.org/ver10/error">
<s:Header>{header}</s:Header><s:Body>{body}</s:Body></s:Envelope>"""
FAULT = """<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>ter:{code}</s:Value></s:Subcode></s:Code>
<s:Reason><s:Text xml:lang="en">{text}</s:Text></s:Reason></s:Fault>"""
TIME = """<tds:GetSystemDateAndTimeResponse><tds:SystemDateAndTime><tt:DateTimeType>NTP</tt:DateTimeType>
<tt:DaylightSavings>false</tt:DaylightSavings>{time}</tds:SystemDateAndTime></tds:GetSystemDateAndTimeResponse>"""
UTC = """<tt:UTCDateTime><tt:Time><tt:Hour>{0.hour}</tt:Hour><tt:Minute>{0.minute}</tt:Minute>
<tt:Second>{0.second}</tt:Second></tt:Time><tt:Date><tt:Year>{0.year}</tt:Year><tt:Month>{0.month}</tt:Month>
<tt:Day>{0.day}</tt:Day></tt:Date></tt:UTCDateTime>"""
SERVICES = """<tds:GetServicesResponse><tds:Service><tds:Namespace>http://www.onvif.org/ver10/media/wsdl</tds:Namespace>
<tds:XAddr>{address}/onvif/media</tds:XAddr><tds:Version><tt:Major>2</tt:Major><tt:Minor>0</tt:Minor></tds:Version>
</tds:Service></tds:GetServicesResponse>"""
PROFILE = """<trt:Profiles token="{name}" fixed="true"><tt:Name>{name}</tt:Name>
<tt:VideoEncoderConfiguration token="e{name}"><tt:Name>e</tt:Name><tt:UseCount>1</tt:UseCount>
<tt:Encoding>H264</tt:Encoding><tt:Resolution><tt:Width>{width}</tt:Width><tt:Height>{height}</tt:Height></tt:Resolution>
<tt:Quality>4</tt:Quality><tt:RateControl><tt:FrameRateLimit>{rate}</tt:FrameRateLimit>
<tt:EncodingInterval>1</tt:EncodingInterval><tt:BitrateLimit>2048</tt:BitrateLimit></tt:RateControl>
<tt:Multicast><tt:Address><tt:Type>IPv4</tt:Type></tt:Address><tt:Port>0</tt:Port><tt:TTL>1</tt:TTL>
<tt:AutoStart>false</tt:AutoStart></tt:Multicast><tt:SessionTimeout>PT60S</tt:SessionTimeout>
</tt:VideoEncoderConfiguration></trt:Profiles>"""
ADDRESS = """<trt:Get{kind}UriResponse><trt:MediaUri><tt:Uri>{address}</tt:Uri>
<tt:InvalidAfterConnect>false</tt:InvalidAfterConnect><tt:InvalidAfterReboot>false</tt:InvalidAfterReboot>
<tt:Timeout>PT0S</tt:Timeout></trt:MediaUri></trt:Get{kind}UriResponse>"""
MATCH = """<d:ProbeMatches><d:ProbeMatch><a:EndpointReference><a:Address>urn:uuid:1</a:Address></a:EndpointReference>
<d:Types>dn:NetworkVideoTransmitter</d:Types><d:Scopes>onvif://www.onvif.org/name/Front%20Door
 onvif://www.onvif.org/hardware/IPC-1</d:Scopes>
<d:XAddrs>http://[ http://169.254.3.4/onvif/device_service {address}</d:XAddrs>
<d:MetadataVersion>1</d:MetadataVersion></d:ProbeMatch></d:ProbeMatches>"""


class Camera(BaseHTTPRequestHandler):
    """Answers by the name of what is asked."""

    knows_time = True

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
        found = re.search(r"Body[^>]*>\s*<(?:[\w-]+:)?(\w+)", asked)
        assert found is not None
        status, body = self._answer(found[1], asked)
        content = ENVELOPE.format(header="", body=body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/soap+xml; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, verb: str, asked: str) -> tuple[int, str]:
        address = f"http://{self.headers['Host']}"
        if verb == "GetSystemDateAndTime":
            return 200, TIME.format(time=UTC.format(datetime.now(timezone.utc)) if self.knows_time else "")
        if not has_login(asked):
            return 400, FAULT.format(code="NotAuthorized", text="Sender not Authorized")
        token = re.search(r"ProfileToken>(\w+)<", asked)
        match verb:
            case "GetServices":
                return 200, SERVICES.format(address=address)
            case "GetProfiles":
                each = (PROFILE.format(name=name, width=w, height=h, rate=r) for name, (w, h, r) in STREAMS.items())
                return 200, f"<trt:GetProfilesResponse>{''.join(each)}</trt:GetProfilesResponse>"
            case "GetStreamUri":
                assert token is not None
                return 200, ADDRESS.format(kind="Stream", address=f"rtsp://127.0.0.1:554/{token[1]}")
            case "GetSnapshotUri":
                return 200, ADDRESS.format(kind="Snapshot", address=f"{address}/snapshot.jpg")
        return 400, FAULT.format(code="ActionNotSupported", text=verb)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def has_login(asked: str) -> bool:
    """Whether a question has the digest of the login (WS-Security UsernameToken Profile 1.0)."""
    parts = [re.search(rf"{name}[^>]*>([^<]+)<", asked) for name in ("Username", "Password", "Nonce", "Created")]
    if any(part is None for part in parts):
        return False
    user, digest, nonce, created = (part[1] for part in parts if part is not None)
    wanted = hashlib.sha1(base64.b64decode(nonce) + created.encode() + PASSWORD.encode()).digest()
    return user == USER and base64.b64decode(digest) == wanted


@contextmanager
def onvif_camera(handler: type[Camera] = Camera) -> Iterator[str]:
    """Yield HOST:PORT of a camera."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering_to_discovery(place: str) -> Iterator[None]:
    """Answer the probes that reach the multicast group on loopback, as the camera at HOST:PORT."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as group:
        group.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        group.bind((GROUP, PORT))
        loopback = struct.pack("4s4s", socket.inet_aton(GROUP), socket.inet_aton("127.0.0.1"))
        group.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, loopback)
        group.settimeout(0.05)
        ended = threading.Event()

        def answer() -> None:
            while not ended.is_set():
                try:
                    probe, sender = group.recvfrom(65_536)
                except TimeoutError:
                    continue
                asked = re.search(rb"MessageID>([^<]+)<", probe)
                if asked is not None and b"Probe" in probe:
                    header = (
                        f"<a:MessageID>urn:uuid:2</a:MessageID><a:RelatesTo>{asked[1].decode()}</a:RelatesTo>"
                        "<a:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/ProbeMatches</a:Action>"
                    )
                    body = MATCH.format(address=f"http://{place}/onvif/device_service")
                    group.sendto(ENVELOPE.format(header=header, body=body).encode(), sender)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
