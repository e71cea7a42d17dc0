from __future__ import annotations

import stat
from pathlib import Path

import pytest

from manager.wire.discovery import DEFAULT_URL, Endpoint, find_manager, write_endpoint
from placement.model import InvalidInput

STORED = "http://127.0.0.1:7500"


@pytest.fixture
def endpoint_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("COTENANT_MANAGER", "COTENANT_TOKEN", "COTENANT_ENDPOINT_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "cotenant" / "endpoint.json"


def store(endpoint_file: Path, token: str = "stored-token") -> None:
    token_file = endpoint_file.parent / "token"
    write_endpoint(endpoint_file, STORED, token_file)
    token_file.write_text(token + "\n")


def test_without_anything_the_default_is_tried_without_a_token(endpoint_file: Path) -> None:
    assert find_manager() == Endpoint(DEFAULT_URL, None)


@pytest.mark.parametrize(
    ("explicit", "variables", "expected"),
    [
        (None, {}, Endpoint(STORED, "stored-token")),
        (None, {"COTENANT_TOKEN": "mine"}, Endpoint(STORED, "mine")),
        (None, {"COTENANT_MANAGER": "http://other:1"}, Endpoint("http://other:1", None)),
        ("http://third:1", {"COTENANT_MANAGER": "http://other:1"}, Endpoint("http://third:1", None)),
        ("http://third:1", {"COTENANT_TOKEN": "mine"}, Endpoint("http://third:1", "mine")),
        ("http://localhost:7500/", {}, Endpoint("http://localhost:7500", "stored-token")),
        ("https://127.0.0.1:7500", {}, Endpoint("https://127.0.0.1:7500", None)),
        ("http://127.0.0.1:7501", {}, Endpoint("http://127.0.0.1:7501", None)),
    ],
)
def test_the_order_of_places_and_no_token_for_strangers(
    endpoint_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    explicit: str | None,
    variables: dict[str, str],
    expected: Endpoint,
) -> None:
    store(endpoint_file)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_manager(explicit) == expected


def test_a_missing_token_file_is_no_token(endpoint_file: Path) -> None:
    store(endpoint_file)
    (endpoint_file.parent / "token").unlink()
    assert find_manager() == Endpoint(STORED, None)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"url": 7}', '{"url": "x", "token_file": 1}'])
def test_a_broken_endpoint_file_is_named(endpoint_file: Path, text: str) -> None:
    endpoint_file.parent.mkdir()
    endpoint_file.write_text(text)
    with pytest.raises(InvalidInput, match="not an endpoint file"):
        find_manager()


@pytest.mark.parametrize("url", ["localhost:7077", "ftp://x", "http://", "http://x:99999", "http://[::1"])
def test_what_is_no_address_is_refused(endpoint_file: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="manager address"):
        find_manager(url)


def test_the_endpoint_file_is_its_owner_s_alone_and_replaced_whole(endpoint_file: Path) -> None:
    store(endpoint_file)
    write_endpoint(endpoint_file, "http://127.0.0.1:1", endpoint_file.parent / "token")
    assert stat.S_IMODE(endpoint_file.stat().st_mode) == 0o600
    assert sorted(path.name for path in endpoint_file.parent.iterdir()) == ["endpoint.json", "token"]
    assert "stored" not in repr(Endpoint("u", "stored"))
