"""Makes wheels with zktestd inside, one for each platform, out of the wheel without it.

    wheels.py WHEEL PROGRAM...

The name of a program is zktestd, its system and its architecture: zktestd-linux-amd64. The wheels go where the WHEEL is.

Pip chooses a wheel by its tag. On Linux the tag says which C library the program needs. A static program needs none, so it runs
beside the oldest glibc that a tag names (manylinux2014), and beside musl (musllinux). Go asks for Linux 3.2, and for macOS 12.
"""
import base64
import hashlib
import pathlib
import sys
import zipfile

TAGS = {
    "linux-amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux-arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin-amd64": "macosx_12_0_x86_64",
    "darwin-arm64": "macosx_12_0_arm64",
    "windows-amd64": "win_amd64",
    "windows-arm64": "win_arm64",
}


def read(wheel):
    """Returns the files of a wheel by name, without the list of them."""
    with zipfile.ZipFile(wheel) as z:
        return {name: z.read(name) for name in z.namelist() if not name.endswith(".dist-info/RECORD")}


def tagged(info, platform):
    """Returns the file WHEEL with the tags of a platform."""
    lines = [line for line in info.decode().splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    lines += ["Root-Is-Purelib: false"] + ["Tag: py3-none-" + tag for tag in platform.split(".")]
    return ("\n".join(lines) + "\n").encode()


def write(wheel, files, dist_info):
    """Writes a wheel, with the list of its files. The same files make the same wheel."""
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    record += dist_info + "RECORD,,\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for name, data in [*files.items(), (dist_info + "RECORD", record.encode())]:
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            executable = name.startswith("pytest_zktest/zktestd")  # pip keeps this permission
            entry.external_attr = (0o100755 if executable else 0o100644) << 16
            z.writestr(entry, data)


def main(plain, *programs):
    plain = pathlib.Path(plain)
    for program in map(pathlib.Path, programs):
        target = program.stem[len("zktestd-"):]
        files = read(plain)
        info = next(name for name in files if name.endswith(".dist-info/WHEEL"))
        files[info] = tagged(files[info], TAGS[target])
        files["pytest_zktest/zktestd" + program.suffix] = program.read_bytes()
        wheel = plain.with_name(plain.name.replace("-any.whl", "-%s.whl" % TAGS[target]))
        write(wheel, files, info[: -len("WHEEL")])
        print(wheel.name)


if __name__ == "__main__":
    main(*sys.argv[1:])
