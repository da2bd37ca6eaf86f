"""The key of a service, which an environment variable holds; no file ever does."""

import os

from r2med_ray.errors import NotAtHand

NO_KEY = "no-key-needed"
"""Sent where a service wants no key; without one the client would send OPENAI_API_KEY to whoever listens."""


def find_key(variable: str) -> str:
    """Return the key that an environment variable holds; "" where it is not set, or holds nothing but spaces."""
    return os.environ.get(variable, "").strip()


def api_key(variable: str | None) -> str:
    """Return the key that an environment variable holds, or `NO_KEY` where no variable is named.

    Raises:
        NotAtHand: the variable is not set or empty.
    """
    if variable is None:
        return NO_KEY
    key = find_key(variable)
    if not key:
        raise NotAtHand(variable, f"the environment variable {variable} must hold the service's key; it holds none")
    return key
