#!/bin/bash
# Builds a ZooKeeper image from Debian's packages without pulling anything: a cut-down Java, ZooKeeper's jars and the
# shared objects they need, on top of just a shell. About 55 MB, in seconds.
#
#   integration/kit/docker/build.sh [name]        default zkrecipes/zookeeper:debian
#
# Needs: default-jdk-headless, zookeeper, and a Docker that runs (start.sh).
set -euo pipefail

image=${1:-zkrecipes/zookeeper:debian}
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/rootfs
mkdir -p "$root"/{etc,data,tmp,conf,zk/lib,opt,bin}
cp /bin/dash "$root/bin/sh" # for what the tests of zkr run
cp /bin/sleep "$root/bin/sleep"

jlink --output "$root/opt/jre" --strip-debug --no-header-files --no-man-pages --compress=2 \
  --add-modules java.base,java.logging,java.management,java.naming,java.security.jgss,java.security.sasl,java.xml,jdk.unsupported

# The jars that zookeeper.jar names in its manifest; jline is only for the command line. The logger is the JDK's, because
# log4j depends on half a desktop.
jars=/usr/share/java
(cd "$work" && jar xf "$jars/zookeeper.jar" META-INF/MANIFEST.MF)
manifest=$(tr -d '\r' <"$work/META-INF/MANIFEST.MF" | sed -z 's/\n //g' | sed -n 's/^Class-Path: //p')
rm -r "$work/META-INF"
for jar in "$jars/zookeeper.jar" "$jars/slf4j-jdk14.jar" $manifest; do
  [[ -e $jar ]] && cp -L "$jar" "$root/zk/lib/$(basename "$jar")"
done

# What the dynamic linker will look for.
find "$root/opt/jre" "$root/bin" -type f \( -name '*.so' -o -path '*/bin/*' \) -exec ldd {} + 2>/dev/null |
  grep -o '/[^ ]*\.so[^ ]*' | grep -v "^$root" | sort -u |
  while read -r so; do
    mkdir -p "$root$(dirname "$so")"
    cp -L "$so" "$root$so"
  done

echo 'zookeeper:x:1000:1000::/data:/none' >"$root/etc/passwd"
echo 'zookeeper:x:1000:' >"$root/etc/group"
cat >"$root/conf/zoo.cfg" <<CONF
dataDir=/data
clientPort=2181
tickTime=500
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
CONF
chown -R 1000:1000 "$root/data" "$root/conf"
chmod 1777 "$root/tmp"

# ADD of an archive keeps owners, which COPY would not, and the server must be able to write to /data.
tar -C "$root" -cf "$work/rootfs.tar" .
cp "$here/Dockerfile" "$work/Dockerfile"
rm -rf "$root"
DOCKER_BUILDKIT=0 docker build -q -t "$image" "$work"
