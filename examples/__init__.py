"""Workflows that a newcomer runs: ordinary Django apps, and nothing in `runs` knows them."""
