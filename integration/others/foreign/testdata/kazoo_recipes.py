"""Runs kazoo's double barrier against the server given on the command line, and fails if it misbehaves."""
import faulthandler
import logging
import sys
import threading

from kazoo.client import KazooClient

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


begun, left = [], []
entered = threading.Barrier(3)


def pass_through(c, i):
    double = c.DoubleBarrier("/double", 3)
    begun.append(i)
    double.enter()
    assert len(begun) == 3, begun
    # kazoo's enter waits forever, on any server, if another client enters and leaves between its create and its list.
    entered.wait(LIMIT)
    left.append(i)
    double.leave()
    assert len(left) == 3, left


together(3, pass_through)
assert len(left) == 3, left
