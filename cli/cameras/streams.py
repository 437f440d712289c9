"""Asks a camera by ONVIF for the addresses of its streams."""

import asyncio
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientError
from onvif import ONVIFCamera
from onvif.exceptions import ONVIFError
from onvif.util import is_auth_error
from zeep.exceptions import Error as SoapError
from zeep.exceptions import Fault

from edgemeta.cli.cameras.errors import OnvifError
from edgemeta.cli.cameras.find import Found

_RTSP = {"Stream": "RTP-Unicast", "Transport": {"Protocol": "RTSP"}}


@dataclass(frozen=True)
class Stream:
    """A stream of a camera. address: as the camera gives it, without a login. snapshot: of single pictures, or None.

    width, height: pixels; rate: frames per second, 0 where the camera does not say.
    """

    name: str
    address: str
    snapshot: str | None
    coding: str
    width: int
    height: int
    rate: float


def streams_of(camera: Found, username: str | None, password: str | None, seconds: float) -> list[Stream]:
    """The streams of a camera, largest pictures first. Raises OnvifError, also after some seconds."""
    shown = f"camera {camera.host}:{camera.port}"
    try:
        found = asyncio.run(asyncio.wait_for(_streams(camera, username, password), seconds))
    except (asyncio.TimeoutError, TimeoutError):
        raise OnvifError(f"{shown} did not answer within {seconds:g} s") from None
    except (ONVIFError, SoapError, ClientError, OSError) as error:
        if isinstance(error, Fault) and is_auth_error(error):
            expected = "another user name or password" if username else "a user name and a password"
            raise OnvifError(f"{shown} refused the login, expected {expected} of its ONVIF users") from None
        raise OnvifError(f"{shown} does not answer as ONVIF has it: {' '.join(str(error).split())[:200]}") from None
    except (AttributeError, TypeError, ValueError) as error:  # the library reads what the camera has left out
        raise OnvifError(f"{shown} leaves out of its answer what ONVIF demands ({error})") from None
    return sorted(found, key=lambda each: -each.width * each.height)


async def _streams(camera: Found, username: str | None, password: str | None) -> list[Stream]:
    client = ONVIFCamera(camera.host, camera.port, username or "", password or "", adjust_time=True)
    try:
        await client.update_xaddrs()
        media = await client.create_media_service()
        return [
            await _stream(client, media, each) for each in await media.GetProfiles() if each.VideoEncoderConfiguration
        ]
    finally:
        await client.close()


async def _stream(client: Any, media: Any, profile: Any) -> Stream:
    answer = await media.GetStreamUri({"StreamSetup": _RTSP, "ProfileToken": profile.token})
    snapshot = await client.get_snapshot_uri(profile.token)
    coded = profile.VideoEncoderConfiguration
    rate = coded.RateControl.FrameRateLimit if coded.RateControl is not None else 0
    size = coded.Resolution
    return Stream(str(profile.Name), str(answer.Uri), snapshot, str(coded.Encoding), size.Width, size.Height, rate)
