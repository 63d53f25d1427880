# Acquires and releases a lock in a loop for every line of input, "milliseconds". It prints what CuratorBench.java prints,
# for one client.
import sys
import time

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1], timeout=15)
client.start()
lock = client.Lock("/bench/kazoo", extra_lock_patterns=["lock-"])  # as beside zkrecipes
for line in sys.stdin:
    sections, longest = 0, 0
    start = before = time.monotonic()
    while before < start + int(line) / 1000:
        with lock:
            sections += 1
        now = time.monotonic()
        longest, before = max(longest, now - before), now
    print(sections / (before - start), longest * 1000, sections, sections, flush=True)
client.stop()
