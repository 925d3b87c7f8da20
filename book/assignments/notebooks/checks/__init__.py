"""Checks for the assignments: each tries your function and says what kind of fault it sees."""
