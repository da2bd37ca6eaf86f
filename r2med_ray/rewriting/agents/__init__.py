"""Loops in which a language model searches while it reasons."""
