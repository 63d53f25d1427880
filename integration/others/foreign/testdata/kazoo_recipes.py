"""Runs kazoo's recipes against the server given on the command line, and fails at the first that misbehaves."""
import faulthandler
import logging
import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, LockTimeout, NoNodeError, NodeExistsError, RolledBackError
from kazoo.security import make_digest_acl

logging.basicConfig(level=logging.ERROR)
LIMIT = 20  # in seconds, of any wait
faulthandler.dump_traceback_later(5 * LIMIT, exit=True)  # where it hangs, before the caller gives up


def connect():
    client = KazooClient(hosts=sys.argv[1], timeout=10)
    client.start(LIMIT)
    return client


def together(n, body):
    """Runs body(client, number) in n threads with clients of their own."""
    errors = []

    def one(i):
        client = connect()
        try:
            body(client, i)
        except Exception as e:  # noqa: BLE001 - reported below
            errors.append((i, repr(e)))
        finally:
            client.stop()
            client.close()

    threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(3 * LIMIT)
    assert not errors, errors
    assert not any(t.is_alive() for t in threads), "threads hang"


def operations():
    zk = connect()
    zk.create("/ops/a", b"1", makepath=True)
    try:
        zk.create("/ops/a")
        raise AssertionError("created twice")
    except NodeExistsError:
        pass
    assert zk.create("/ops/s-", sequence=True, ephemeral=True) == "/ops/s-0000000001"
    data, stat = zk.get("/ops/a")
    assert data == b"1" and stat.version == 0 and stat.dataLength == 1, stat
    assert zk.set("/ops/a", b"22").version == 1
    try:
        zk.set("/ops/a", b"3", version=7)
        raise AssertionError("version ignored")
    except BadVersionError:
        pass
    assert sorted(zk.get_children("/ops")) == ["a", "s-0000000001"]
    names, stat = zk.get_children("/ops", include_data=True)
    assert stat.numChildren == len(names) == 2
    assert zk.exists("/nope") is None
    assert zk.sync("/ops") == "/ops"
    path, stat = zk.create("/ops/box", include_data=True)
    assert path == "/ops/box" and stat.ephemeralOwner == 0, stat

    zk.add_auth("digest", "u:p")
    zk.set_acls("/ops/box", [make_digest_acl("u", "p", all=True)])
    acls, stat = zk.get_acls("/ops/box")
    assert stat.aversion == 1 and acls[0].id.scheme == "digest", acls

    t = zk.transaction()
    t.create("/ops/t", b"x")
    t.check("/ops/a", 1)
    t.set_data("/ops/t", b"y")
    t.delete("/ops/box")
    results = t.commit()
    assert results[0] == "/ops/t" and results[2].version == 1 and results[3] is True, results
    t = zk.transaction()
    t.create("/ops/u")
    t.delete("/ops/nope")
    t.create("/ops/v")
    kinds = [type(r) for r in t.commit()]
    assert kinds[0] is RolledBackError and kinds[1] is NoNodeError, kinds
    assert zk.exists("/ops/u") is None
    zk.delete("/ops", recursive=True)
    zk.stop()
    zk.close()


def watches():
    zk, other = connect(), connect()
    zk.ensure_path("/watch")
    seen, children = [], []
    got = threading.Condition()

    @zk.DataWatch("/watch/d")
    def _(data, stat):
        with got:
            seen.append(data)
            got.notify_all()

    @zk.ChildrenWatch("/watch")
    def _(names):
        with got:
            children.append(sorted(names))
            got.notify_all()

    def expect(what, wanted):
        with got:
            assert got.wait_for(lambda: what and what[-1] == wanted, LIMIT), (what, wanted)

    expect(seen, None)
    other.create("/watch/d", b"1")
    expect(seen, b"1")
    expect(children, ["d"])
    other.set("/watch/d", b"2")
    expect(seen, b"2")
    other.delete("/watch/d")
    expect(seen, None)
    expect(children, [])
    for c in (zk, other):
        c.stop()
        c.close()


def lock():
    inside, order = [], []

    def body(zk, i):
        for _ in range(5):
            with zk.Lock("/lock", str(i)) as _lock:
                inside.append(i)
                assert inside == [i], inside
                order.append(i)
                inside.remove(i)

    together(4, body)
    assert len(order) == 20
    zk, other = connect(), connect()
    held = zk.Lock("/lock", "holder")
    assert held.acquire(timeout=LIMIT)
    waiting = other.Lock("/lock", "waiter")
    try:
        waiting.acquire(timeout=0.2)
        raise AssertionError("two hold the lock")
    except LockTimeout:
        pass
    assert held.contenders() == ["holder"], held.contenders()
    assert waiting.acquire(blocking=False) is False
    zk.stop()  # ends the session: the lock is free
    assert waiting.acquire(timeout=LIMIT)
    waiting.release()
    for c in (zk, other):
        c.stop() if c is other else None
        c.close()


def rwlock():
    a, b, c = connect(), connect(), connect()
    one, two, writer = a.ReadLock("/rw"), b.ReadLock("/rw"), c.WriteLock("/rw")
    assert one.acquire(timeout=LIMIT) and two.acquire(timeout=LIMIT)
    assert writer.acquire(blocking=False) is False
    one.release()
    two.release()
    assert writer.acquire(timeout=LIMIT)
    assert one.acquire(blocking=False) is False
    writer.release()
    for x in (a, b, c):
        x.stop()
        x.close()


def semaphore():
    guard, inside, most = threading.Lock(), [0], [0]
    ready = threading.Event()

    def body(zk, i):
        for _ in range(4):
            with zk.Semaphore("/semaphore", max_leases=2):
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                    if inside[0] == 2:
                        ready.set()
                ready.wait(LIMIT)
                with guard:
                    inside[0] -= 1

    together(5, body)
    assert most[0] == 2, most


def election():
    led, leading = [], threading.Lock()

    def body(zk, i):
        def lead():
            assert leading.acquire(blocking=False), "two leaders"
            led.append(i)
            leading.release()

        zk.Election("/election", str(i)).run(lead)

    together(4, body)
    assert sorted(led) == [0, 1, 2, 3], led


def barrier():
    zk = connect()
    gate = zk.Barrier("/barrier")
    gate.create()
    assert gate.wait(0.2) is False
    passed = []
    threads = [threading.Thread(target=together, args=(2, lambda c, i: passed.append(c.Barrier("/barrier").wait(LIMIT))))]
    for t in threads:
        t.start()
    gate.remove()
    for t in threads:
        t.join(3 * LIMIT)
    assert passed == [True, True], passed
    zk.stop()
    zk.close()

    begun, left = [], []
    entered = threading.Barrier(3)

    def body(c, i):
        double = c.DoubleBarrier("/double", 3)
        begun.append(i)
        double.enter()
        assert len(begun) == 3, begun
        # kazoo's enter waits forever, on any server, if another client enters and leaves between its create and its list.
        entered.wait(LIMIT)
        left.append(i)
        double.leave()
        assert len(left) == 3, left

    together(3, body)
    assert len(left) == 3, left


def party():
    arrived, left = threading.Barrier(3), threading.Barrier(3)

    def body(zk, i):
        p = zk.Party("/party", "guest%d" % i)
        p.join()
        arrived.wait(LIMIT)
        assert sorted(p) == ["guest0", "guest1", "guest2"], list(p)
        assert len(zk.ShallowParty("/party")) == 3
        left.wait(LIMIT)
        p.leave()

    together(3, body)
    zk = connect()
    assert len(zk.Party("/party")) == 0
    zk.stop()
    zk.close()


def counter_and_queue():
    def count(zk, i):
        c = zk.Counter("/counter")
        for _ in range(10):
            c += 1

    together(3, count)
    zk = connect()
    assert zk.Counter("/counter").value == 30
    q = zk.Queue("/queue")
    for x in (b"1", b"2", b"3"):
        q.put(x)
    assert [q.get(), q.get(), q.get(), q.get()] == [b"1", b"2", b"3", None]
    zk.stop()
    zk.close()


for test in (operations, watches, lock, rwlock, semaphore, election, barrier, party, counter_and_queue):
    test()
    print(test.__name__, "ok", flush=True)
print("all passed")
