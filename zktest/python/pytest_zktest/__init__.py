"""A ZooKeeper for tests: the fixture zktest runs the program zktestd, and every command of it is a method."""
import contextlib
import json
import os
import shutil
import subprocess
import threading
import warnings

import pytest


class Error(Exception):
    """A command failed; the message is the server's."""


def program():
    """Returns where zktestd is: ZKTESTD in the environment, or else the one in the wheel, or else the PATH."""
    inside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zktestd.exe" if os.name == "nt" else "zktestd")
    found = os.environ.get("ZKTESTD") or shutil.which(inside) or shutil.which("zktestd")
    if not found:
        raise Error(
            "no zktestd in the package, in ZKTESTD or in the PATH. Install a wheel that has it (make wheels), "
            "or in a clone of zkrecipes: CGO_ENABLED=0 go install ./cmd/zktestd"
        )
    return found


def word(value):
    """Writes an argument as zktestd reads it."""
    if isinstance(value, bytes):
        return '"' + "".join("\\x%02x" % b for b in value) + '"'
    if isinstance(value, int):
        return str(value)
    if value and value.isprintable() and not set(value) & set(' "'):
        return value
    return json.dumps(value, ensure_ascii=False)


class Server:
    """A running zktestd. Its methods are the commands; drop_reply("create", path="^/a") says: drop-reply create path=^/a"""

    def __init__(self, *flags):
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [program(), *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True, encoding="utf-8"
        )
        ready = self._process.stdout.readline().split()
        if ready[:1] != ["ready"]:
            self.close()
            raise Error("zktestd does not start; its standard error says why")
        self.address = ready[1]

    def do(self, line):
        """Sends a line, and returns the values of the answer. Raises Error with the reason if it fails."""
        with self._turn:
            try:
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()
            except OSError as e:
                raise Error("zktestd has ended") from e
            values = []
            for answer in self._process.stdout:
                answer = answer.rstrip("\n")
                if answer == "ok":
                    return values
                if answer.startswith("error: "):
                    raise Error("%s: %s" % (line, answer[len("error: "):]))
                values.append(json.loads(answer) if answer.startswith("{") else answer)
        raise Error("%s: zktestd has ended" % line)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def command(*args, **conditions):
            words = [name.rstrip("_").replace("_", "-")] + [word(a) for a in args]
            words += [word("%s=%s" % (k.rstrip("_"), v)) for k, v in conditions.items()]
            return self.do(" ".join(words))

        return command

    def help(self):
        """Returns the list of commands as text."""
        return "\n".join(self.do("help"))

    def close(self):
        """Ends the server. A second call does nothing."""
        with contextlib.suppress(OSError):  # it ended by itself, and a line was not read
            self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def pytest_configure(config):
    config.addinivalue_line("markers", "zktest(*flags): flags of zktestd for the fixture zktest")


@pytest.fixture
def zktest(request):
    """A ZooKeeper of its own for the test; what it finds wrong fails the test."""
    marker = request.node.get_closest_marker("zktest")
    with Server(*(marker.args if marker else ())) as server:
        yield server
        found = server.violations()
        for v in found:
            if v["misuse"]:
                warnings.warn("zktest: " + v["violation"])
        wrong = [v["violation"] for v in found if not v["misuse"]]
        if wrong:
            pytest.fail("zktest: " + "; ".join(wrong), pytrace=False)
