"""A change of a database that a person approves before it is made. Start with README.md beside this file."""
