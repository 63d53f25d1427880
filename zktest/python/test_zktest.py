import threading
import time

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, NoAuthError

import pytest_zktest

pytest_plugins = ["pytester"]
LIMIT = 10  # seconds that any wait may take


@pytest.fixture
def connect():
    """Starts clients, and stops them when the test ends."""
    clients = []

    def start(address):
        client = KazooClient(hosts=address)
        clients.append(client)
        client.states = []
        client.changed = threading.Condition()

        def listener(state):
            with client.changed:
                client.states.append(state)
                client.changed.notify_all()

        client.add_listener(listener)
        client.start(LIMIT)
        return client

    yield start
    for client in clients:
        client.stop()
        client.close()


def wait_for(client, *states):
    with client.changed:
        assert client.changed.wait_for(lambda: client.states[-len(states):] == list(states), LIMIT), client.states


def test_starts_fast_with_nothing_in_it(zktest):
    started = time.monotonic()
    with pytest_zktest.Server() as other:
        assert time.monotonic() - started < 1  # milliseconds, on a machine that has nothing else to do
        assert other.address != zktest.address
        assert [n["path"] for n in other.tree()] == ["/"]


def test_expire(zktest, connect):
    client = connect(zktest.address)
    client.create("/e", ephemeral=True)
    assert zktest.get("/e")[0]["owner"] == hex(client.client_id[0])
    zktest.expire(client.client_id[0])
    wait_for(client, KazooState.LOST, KazooState.CONNECTED)
    assert client.exists("/e") is None


def test_stop_and_start_on_the_same_port(zktest, connect):
    client = connect(zktest.address)
    client.create("/e", ephemeral=True)
    zktest.stop()
    wait_for(client, KazooState.CONNECTED, KazooState.SUSPENDED)
    zktest.start()
    wait_for(client, KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.CONNECTED)
    assert client.exists("/e").ephemeralOwner == client.client_id[0]


def test_drop_reply(zktest, connect):
    client = connect(zktest.address)
    rule = zktest.drop_reply("create", path="^/a b$")[0]["rule"]
    with pytest.raises(ConnectionLoss):
        client.create("/a b")
    zktest.await_(rule)
    assert client.retry(client.exists, "/a b")  # it was applied


def test_fail_for_one_client(zktest, connect):
    address = zktest.listen("a")[0]["address"]
    a, b = connect(address), connect(zktest.address)
    zktest.fail("no-auth", "exists", from_="a", times="all")
    with pytest.raises(NoAuthError):
        a.exists("/")
    assert b.exists("/")


def test_data_of_all_kinds(zktest, connect):
    client = connect(zktest.address)
    zktest.create("/d", b"\x00\xff")
    assert client.get("/d")[0] == b"\x00\xff"
    for text in ["", 'two words, "quoted"', "line\nline\t\\", "\u00e9\u4e2d\U0001f600"]:
        zktest.set("/d", text)
        assert client.get("/d")[0] == text.encode()
        assert zktest.get("/d")[0]["data"] == text


def test_errors_say_what_the_server_said(zktest):
    with pytest.raises(pytest_zktest.Error, match="unknown command \"bogus\": help lists all commands"):
        zktest.bogus()
    assert "drop-reply" in zktest.help()


@pytest.mark.zktest("-ttl", "-tick", "100ms")
def test_flags_come_from_the_marker(zktest, connect):
    client = connect(zktest.address)
    assert zktest.sessions()[0]["timeout"] == "2s"  # kazoo asks for 10 s, and 20 ticks are the most
    assert client.exists("/")


def test_program_that_is_missing(monkeypatch):
    monkeypatch.delenv("ZKTESTD", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest_zktest.Error, match="go install"):
        pytest_zktest.Server()


def test_flag_that_is_wrong():
    with pytest.raises(pytest_zktest.Error, match="does not start"):
        pytest_zktest.Server("-bogus")


def test_server_that_has_ended(zktest):
    server = pytest_zktest.Server()
    server.quit()
    with pytest.raises(pytest_zktest.Error, match="has ended"):
        while True:  # it may answer some more
            server.sessions()
    server.close()


def test_violation_fails_the_test(pytester):
    pytester.makepyfile(
        """
        from kazoo.client import KazooClient

        def test_one(zktest):
            zktest.forbid("exists")
            client = KazooClient(hosts=zktest.address)
            client.start()
            client.exists("/")
            client.stop()
        """
    )
    result = pytester.runpytest_subprocess("-p", "pytest_zktest")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*zktest: forbidden request: exists /*"])
