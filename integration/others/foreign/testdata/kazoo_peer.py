"""Lets kazoo meet other libraries on one path. It speaks the line protocol of integration/others/curator/Peer.java:

  take name kind path arg            waits until name holds
  give name                          releases
  who kind path arg                  the contenders as kazoo lists them
  loop name kind path arg n socket   n sections that add to a set of the resource server at socket

The kinds are mutex, election, read, write and semaphore, whose argument is its limit. Arguments: servers, session timeout in ms.
"""
import json
import logging
import socket
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, SessionExpiredError

logging.basicConfig(level=logging.ERROR)
client = KazooClient(hosts=sys.argv[1], timeout=int(sys.argv[2]) / 1000)
client.start(30)
output = threading.Lock()
locks = {}


def say(line):
    with output:
        print(line, flush=True)


def make(name, kind, path, arg):
    if kind == "mutex":
        return client.Lock(path, name, extra_lock_patterns=["lock-"])
    if kind == "election":  # what Election.run uses, once it is given a Lock that counts the names of the others
        election = client.Election(path, name)
        election.lock = client.Lock(path, name, extra_lock_patterns=["latch-"])
        return election.lock
    if kind == "read":
        return client.ReadLock(path, name, extra_lock_patterns=["__WRIT__"])
    if kind == "write":
        return client.WriteLock(path, name, extra_lock_patterns=["__WRIT__", "__READ__"])
    if kind == "semaphore":
        return client.Semaphore(path, name, max_leases=int(arg))
    raise ValueError(kind)


def loop(name, kind, path, arg, sections, address):
    lock = make(name, kind, path, arg)
    resource = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    resource.connect(address)
    replies = resource.makefile()

    def ask(**request):
        resource.sendall((json.dumps(request) + "\n").encode())
        reply = json.loads(replies.readline())
        assert "error" not in reply and not reply.get("stale"), reply
        return reply["version"]

    def tell(op, what, **more):
        event = dict(kind=what, client=name, op=op, at=time.monotonic_ns(), **more)
        say("+ " + json.dumps(event))

    node = (lambda: lock.create_path) if kind == "semaphore" else (lambda: path + "/" + lock.node)
    exclusive = kind != "read" and (kind != "semaphore" or arg == "1")
    for op in range(1, int(sections) + 1):
        tell(op, "called", weight=1, read=kind == "read")
        end = "failed"
        try:
            lock.acquire()
            granted = time.monotonic_ns()
            token = client.exists(node()).czxid  # a fencing token, comparable with those of the other side
            event = dict(kind="granted", client=name, op=op, at=granted, token=token)
            end = "lost"
            say("+ " + json.dumps(event))
            if exclusive:
                for set_name in (path.rsplit("/", 1)[0] + "/fenced", path.rsplit("/", 1)[0] + "/deaf"):
                    version = ask(set=set_name, client=name, token=token)
                    ask(set=set_name, client=name, token=token, base=version, element="%s-%d" % (name, op))
            tell(op, "released")
            end = ""
            lock.release()
        except (ConnectionLoss, SessionExpiredError):  # the machine is busy
            if end:
                tell(op, end)
            client.stop()  # the section may have left its node, which goes with the session
            client.start(60)
            lock = make(name, kind, path, arg)


def execute(word, *args):
    if word == "take":
        lock = make(*args)
        lock.acquire()
        locks[args[0]] = lock
        return ""
    if word == "give":
        locks.pop(args[0]).release()
        return ""
    if word == "who":
        lock = make("", *args)
        names = client.retry(lock.lease_holders if args[0] == "semaphore" else lock.contenders)
        return " ".join(names)
    if word == "loop":
        try:
            loop(*args)
        except Exception:
            client.restart()  # a section that failed may have left its node, which goes with the session
            raise
        return ""
    raise ValueError(word)


def answer(tag, *request):
    try:
        say("%s ok %s" % (tag, execute(*request)))
    except Exception as e:  # noqa: BLE001 - it is told
        say("%s error %r" % (tag, e))


say("ready")
for line in sys.stdin:
    threading.Thread(target=answer, args=line.split(), daemon=True).start()
