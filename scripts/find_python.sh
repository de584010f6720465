#!/bin/sh
# Prints a Python that deltamirror supports: $PYTHON if it is set, else the first that is found.
# Prints one sentence and fails if there is none.
supported='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'

for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c "$supported" >/dev/null 2>&1; then
        command -v "$candidate"
        exit 0
    fi
done

found=$(${PYTHON:-python3} --version 2>/dev/null || echo "no Python")
echo "deltamirror needs Python 3.11, 3.12 or 3.13 with its venv module, but found ${found}:" \
    "install one, or name it, as in 'make PYTHON=/path/to/python3.12 …'." >&2
exit 1
