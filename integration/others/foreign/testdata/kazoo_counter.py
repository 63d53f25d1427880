"""Adds to a kazoo Counter: host path (text or curator) delta times. Prints the value at the end."""
import sys

from kazoo.client import KazooClient

hosts, path, layout, delta, times = sys.argv[1:]
client = KazooClient(hosts=hosts, timeout=40)
client.start(20)
counter = client.Counter(path, support_curator=layout == "curator")
for _ in range(int(times)):
    while True:
        try:
            counter += int(delta)
            break
        except Exception as e:  # noqa: BLE001 - kazoo gives up when others are faster
            if type(e).__name__ != "RetryFailedError":
                raise
print(counter.value)
client.stop()
client.close()
