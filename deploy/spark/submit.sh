#!/bin/sh
# The mirror as an application that spark-submit starts, for clusters that want it so (YARN, standalone, Kubernetes).
# The driver is the service: it stays where it is started, so `--deploy-mode client`. deltamirror and the same Python are
# installed on every machine: docs/guides/spark.md. Without spark-submit, `deltamirror mirror --follow --master URL` does the same.
#   MASTER=spark://host:7077 deploy/spark/submit.sh --follow --listen 9180
set -eu
: "${MASTER:=local[*]}"
: "${PYTHON:=python3}"
export PYSPARK_PYTHON="${PYSPARK_PYTHON:-$PYTHON}" PYSPARK_DRIVER_PYTHON="$PYTHON"
program=$("$PYTHON" -c 'import deltamirror.cli.__main__ as program; print(program.__file__)')
# Credentials are in the environment of driver and executors, never in --conf: Spark shows its configuration.
exec spark-submit --master "$MASTER" --deploy-mode client --name deltamirror \
    --conf spark.ui.showConsoleProgress=false \
    "$program" mirror --master "$MASTER" "$@"
