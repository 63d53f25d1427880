"""Meets members that another program keeps in kazoo's parties: Party at /party, ShallowParty at /shallow."""
import faulthandler
import sys
import time

from kazoo.client import KazooClient

LIMIT = 20  # seconds that any wait may take
faulthandler.dump_traceback_later(4 * LIMIT, exit=True)  # where it hangs, before the caller gives up

zk = KazooClient(hosts=sys.argv[1], timeout=10)
zk.start(LIMIT)


def until(party, want):
    deadline = time.time() + LIMIT
    while sorted(party) != want:
        assert time.time() < deadline, (sorted(party), want)
        time.sleep(0.02)


for party in (zk.Party("/party", "kazoo"), zk.ShallowParty("/shallow", "kazoo")):
    until(party, ["go"])
    party.join()
    until(party, ["go", "kazoo", "seen"])  # the other program has seen us, and has said so
    assert len(party) == 3, list(party)
    party.leave()
    until(party, ["go", "seen"])
zk.stop()
zk.close()
print("all passed")
