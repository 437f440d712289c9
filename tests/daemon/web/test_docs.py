"""docs/web.md names every address, bound and cost as the code and the results file have them."""

import json
import re
from pathlib import Path
from typing import Any

from edgemeta.daemon.web import request, server
from edgemeta.daemon.web.panel import STATE
from edgemeta.daemon.web.routes import FILES


def rows(repository: Path, head: str) -> list[list[str]]:
    """The cells of the table whose first row begins so."""
    table = (repository / "docs" / "web.md").read_text("utf-8").partition(f"\n| {head} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_every_address_has_a_row_and_nothing_else_has(serve: Any, repository: Path) -> None:
    page = serve()
    site: Any = page.service.parts.page._routes
    documented = [cells[0].strip("`") for cells in rows(repository, "address")]
    panel = [STATE, "/api/pictures/CAMERA/KEY/PAGE", "/picture/CAMERA/ID.jpg"]
    assert sorted(documented) == sorted([*site._answers, "/frame/CAMERA.jpg", "/frame/CAMERA.json", *panel])
    page.state_with_frames()
    for address in documented:
        if address in panel[1:]:  # test_panel.py asks for them
            continue
        path = address.replace("CAMERA", "front")
        assert page.ask(path, method="HEAD").status in ((200, 503) if address == "/readyz" else (200,)), address


def test_every_button_is_described(serve: Any, repository: Path) -> None:
    panel: Any = serve().service.parts.page._routes._panel
    text = (repository / "docs" / "web.md").read_text("utf-8")
    assert [address for address in panel.actions if f"`{address}`" not in text] == []


def test_the_limits_are_those_of_the_code(repository: Path) -> None:
    bounds = {cells[0]: [int(number) for number in re.findall(r"\d+", cells[1])] for cells in rows(repository, "limit")}
    assert bounds == {
        "connections at one time": [server.MAX_CONNECTIONS],
        "pages open at one time (`/api/events`)": [server.MAX_STREAMS],
        "headers, and body of a request": [request.MAX_HEAD // 1024, request.MAX_BODY // 1024],
        "time to send a request, to receive an answer or one event": [server.REQUEST_TIMEOUT, server.SEND_TIMEOUT],
        "time for an answer that needs the disk": [server.DISK_TIMEOUT],
        "requests per connection": [1],
    }


def test_the_costs_are_those_of_the_results_file(repository: Path) -> None:
    results = json.loads((repository / "benchmarks" / "results" / "page-cost.json").read_text("utf-8"))
    by_thread = results["cpu_us_per_frame_by_thread"]
    costs = [by_thread[f"{pages} pages"]["page"] for pages in (0, 1, 8)]
    reported = rows(repository, "| CPU of the page's thread per frame")
    assert [re.findall(r"[\d.]+", cells[1])[0] for cells in reported] == [f"{cost:.0f}" for cost in costs]
    assert [cells[2] for cells in reported] == [f"{cost * results['rate'] / 1e4:.1f} %" for cost in costs]
    assert f"{results['hook_ns_per_frame'] / 1000:.1f} µs of the worker" in reported[0][1]


def test_the_files_of_the_page_are_all_known() -> None:
    """A file that is not served would be useless; a missing one stops the start."""
    folder = Path(server.__file__).parent / "page"
    assert {path.name for path in folder.iterdir()} == {*FILES, "index.html", "sign-in.html"}
