"""Finds a Chromium for the browser tests, or gets one where that is a matter of one command."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from pathlib import Path

VARIABLE = "HITL_TEST_CHROMIUM"
LEAN = "chromium-headless-shell"  # pages without windows around them: less than half the processor time of a whole browser
NAMES = (LEAN, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
APPS = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)
ADVICE = (
    "the browser tests need a Chromium or Chrome.\n"
    "  Debian, Ubuntu:  sudo apt-get install -y chromium-headless-shell\n"
    "  macOS:           brew install --cask google-chrome\n"
    f"  elsewhere:       {VARIABLE}=/path/to/chromium make test\n"
    "or leave them out:  make test SKIP=browser"
)


def find() -> str | None:
    told = os.environ.get(VARIABLE)
    if told:
        return told if Path(told).exists() else None
    on_path = (shutil.which(name) for name in NAMES)
    apps = (app for app in APPS if Path(app).exists())
    return next((found for found in (*on_path, *apps) if found), None)


def ready() -> bool:
    """Whether there is one, after root's Debian was asked for the lean one; any other will do where that cannot be had."""
    if os.environ.get(VARIABLE) or shutil.which(LEAN):
        return find() is not None
    return (_is_debian() and _install(LEAN)) or find() is not None or _install("chromium")


def _is_debian() -> bool:
    try:
        return platform.freedesktop_os_release()["ID"] == "debian"
    except OSError:
        return False


def _install(package: str) -> bool:
    """By apt as root; True if that went well. Says nothing when it cannot be done here."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    print(f"installing {package} (apt-get)", flush=True)
    install = ("install", "-y", "-qq", "--no-install-recommends", package, "fonts-dejavu-core")
    return _apt(*install) or (_apt("update", "-qq") and _apt(*install))


def _apt(*words: str) -> bool:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["apt-get", *words], env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr[-1500:], flush=True)
    return done.returncode == 0
