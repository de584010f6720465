#!/bin/sh
# Builds the LogStore for Delta Lake on Spark into src/deltamirror/spark/jars, with a JDK and Maven from Debian if they are missing.
set -eu
packages="openjdk-17-jdk-headless maven"

have_tools() {
    command -v javac >/dev/null 2>&1 && command -v mvn >/dev/null 2>&1
}

if ! have_tools && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing a JDK and Maven, once"
    apt-get -qq update
    # shellcheck disable=SC2086  # two packages
    DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends $packages >/dev/null
fi
if ! have_tools; then
    echo "deltamirror needs javac (Java 17 or later) and mvn to build its LogStore: install a JDK and Maven, such as $packages of Debian." >&2
    exit 1
fi
mvn --quiet --batch-mode --file "$(dirname "$0")/../logstore/pom.xml" package
