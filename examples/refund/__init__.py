"""A refund that a person approves before money moves. Start with README.md beside this file."""
