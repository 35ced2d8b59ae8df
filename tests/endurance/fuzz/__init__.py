"""Damaged files of every kind, thousands of them: each is refused in one sentence, or loads."""
