# Runs members of a SetPartitioner, which join and leave by the lines of input "join m" and "leave m". Each has its own
# thread and client. It prints "start m shard", "stop m shard" and "gone m".
import sys
import threading

from kazoo.client import KazooClient

servers, shards, settle, timeout = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
names = ["part-%05d" % i for i in range(shards)]
output = threading.Lock()


def say(word, member, held):
    with output:
        sys.stdout.write("".join("%s %s %s\n" % (word, member, name) for name in held))
        sys.stdout.flush()


def belong(member, leaving):
    client = KazooClient(hosts=servers, timeout=timeout)
    client.start()
    changed = threading.Event()
    part = client.SetPartitioner(
        "/kazoo", set=names, identifier=member, time_boundary=settle, state_change_event=changed)
    leaving.wake = changed
    held = []
    while not leaving.is_set():
        changed.clear()
        if part.failed:
            break
        if part.release:
            say("stop", member, held)
            held = []
            part.release_set()
            continue
        if part.acquired and not held:
            held = list(part)
            say("start", member, held)
        changed.wait(1)
    say("stop", member, held)
    part.finish()
    client.stop()
    client.close()
    with output:
        print("gone", member, flush=True)


members = {}
for line in sys.stdin:
    word, member = line.split()
    if word == "join":
        leaving = threading.Event()
        thread = threading.Thread(target=belong, args=(member, leaving))
        members[member] = thread, leaving
        thread.start()
    else:
        leaving = members[member][1]
        leaving.set()
        leaving.wake.set()
for thread, leaving in members.values():
    leaving.set()
    getattr(leaving, "wake", leaving).set()
for thread, _ in members.values():
    thread.join()
