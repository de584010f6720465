#!/bin/sh
# Fails with one sentence unless the Java that Spark will use is version 17 or later.
java=java
if [ -n "${JAVA_HOME:-}" ]; then
    java="$JAVA_HOME/bin/java"
fi

if ! command -v "$java" >/dev/null 2>&1; then
    echo "deltamirror needs Java 17 or later for Spark, but '$java' was not found: install a JDK or JRE, or set JAVA_HOME." >&2
    exit 1
fi

# 'openjdk version "17.0.15"', and '"1.8.0_402"' for Java 8.
version=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
major=${version#1.}
major=${major%%[!0-9]*}
if [ "${major:-0}" -lt 17 ]; then
    echo "deltamirror needs Java 17 or later for Spark, but '$java' is version ${version:-unknown}: install a later one, or set JAVA_HOME." >&2
    exit 1
fi
