#!/bin/sh
# Prints a Python 3.11 or newer that can make a virtual environment, or says the one command that gets one.
for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11 /opt/homebrew/bin/python3 /usr/local/bin/python3; do
  command -v "$name" >/dev/null 2>&1 || continue
  if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
    command -v "$name"
    exit 0
  fi
done

case "$(uname -s)" in
  Darwin) fix="brew install python@3.12" ;;
  *)
    fix="apt-get update && apt-get install -y python3 python3-venv"
    [ "$(id -u)" = 0 ] || fix="sudo sh -c '$fix'"
    ;;
esac
{
  echo "hitl needs Python 3.11 or newer with venv, and found none. Run:"
  echo
  echo "    $fix"
  echo
  echo "then this command again. (PYTHON=/path/to/python chooses one that is not on the PATH.)"
} >&2
exit 1
