from __future__ import annotations

import stat
from pathlib import Path

import pytest

from manager.settings import ManagerSettings, is_loopback, load_token, prepare_data_dir
from placement.model import InvalidInput

GOOD = "0123456789abcdef"


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("listen", "7077", "HOST:PORT"),
        ("listen", ":7077", "HOST:PORT"),
        ("listen", "host:http", "HOST:PORT"),
        ("listen", "host:70770", "HOST:PORT"),
        ("listen", "host:-1", "HOST:PORT"),
        ("policy", "best", "policy"),
        ("belief", "faith", "model"),
        ("lease_s", 0.0, "lease_s"),
        ("fence_s", float("nan"), "fence_s"),
        ("fence_s", float("inf"), "fence_s"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, field: str, value: object, complaint: str
) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        ManagerSettings(data_dir=tmp_path, **{field: value}).check()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("listen", "address"),
    [("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:7077", ("::1", 7077)), ("h:1", ("h", 1))],
)
def test_addresses(tmp_path: Path, listen: str, address: tuple[str, int]) -> None:
    assert ManagerSettings(data_dir=tmp_path, listen=listen).address() == address


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
    ],
)
def test_what_other_machines_can_reach(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_the_first_start_makes_a_token_and_the_next_keeps_it(tmp_path: Path) -> None:
    settings = ManagerSettings(data_dir=tmp_path)
    token = load_token(settings)
    assert len(token) >= 40
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert load_token(settings) == token


def test_off_loopback_a_token_must_have_been_set(tmp_path: Path) -> None:
    settings = ManagerSettings(data_dir=tmp_path, listen="0.0.0.0:7077")
    with pytest.raises(InvalidInput, match="open to other machines"):
        load_token(settings)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "token").write_text(GOOD)
    (tmp_path / "token").chmod(0o600)
    assert load_token(settings) == GOOD
    assert load_token(ManagerSettings(data_dir=tmp_path, listen="0.0.0.0:7077", token=GOOD)) == GOOD


@pytest.mark.parametrize(
    ("text", "mode", "complaint"),
    [
        (b"short", 0o600, "16 or more"),
        (b"with a blank in the middle", 0o600, "without blanks"),
        (b"", 0o600, "16 or more"),
        (b"\xff\xfe\xff\xfe\xff\xfe\xff\xfe\xff\xfe", 0o600, "no text"),
        (GOOD.encode(), 0o644, "others can read"),
        (GOOD.encode(), 0o620, "others can read"),
    ],
)
def test_a_token_file_that_is_weak_or_open_is_refused(
    tmp_path: Path, text: bytes, mode: int, complaint: str
) -> None:
    path = tmp_path / "token"
    path.write_bytes(text)
    path.chmod(mode)
    with pytest.raises(InvalidInput, match=complaint):
        load_token(ManagerSettings(data_dir=tmp_path))


def test_a_named_token_file_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no such token file"):
        load_token(ManagerSettings(data_dir=tmp_path, token_file=tmp_path / "nowhere"))


def test_the_token_does_not_show(tmp_path: Path) -> None:
    assert GOOD not in repr(ManagerSettings(data_dir=tmp_path, token=GOOD))


URL = "postgresql://user:hunter2@host/cotenant"


@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        (None, None, "sqlite:///{}/cotenant.db"),
        (None, "", "sqlite:///{}/cotenant.db"),
        (None, URL, URL),
        ("sqlite:////x.db", URL, "sqlite:////x.db"),
    ],
)
def test_the_database_is_given_outright_or_where_ps_does_not_show_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str | None,
    variable: str | None,
    expected: str,
) -> None:
    if variable is None:
        monkeypatch.delenv("COTENANT_DATABASE_URL", raising=False)
    else:
        monkeypatch.setenv("COTENANT_DATABASE_URL", variable)
    assert ManagerSettings(data_dir=tmp_path, database_url=given).url == expected.format(tmp_path)


def test_the_database_s_password_does_not_show(tmp_path: Path) -> None:
    assert "hunter2" not in repr(ManagerSettings(data_dir=tmp_path, database_url=URL))


@pytest.mark.parametrize(
    ("content", "mode"),
    [
        (None, 0o700),
        ((), 0o700),
        (("token",), 0o700),
        (("cotenant.db", "notes.txt"), 0o700),
        (("notes.txt",), 0o755),
    ],
    ids=["new", "empty", "ours", "ours and more", "somebody's things"],
)
def test_a_data_folder_that_is_ours_is_closed_to_others(
    tmp_path: Path, content: tuple[str, ...] | None, mode: int
) -> None:
    folder = tmp_path / "data"
    if content is not None:
        folder.mkdir()
        folder.chmod(0o755)
        for name in content:
            (folder / name).touch()
    prepare_data_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == mode


def test_a_data_folder_of_another_user_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 1)
    prepare_data_dir(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
