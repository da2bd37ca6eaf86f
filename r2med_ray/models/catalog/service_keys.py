"""Finds the key of a service, which an environment variable holds and a file never does."""

import os

from r2med_ray.errors import NotAtHand
from r2med_ray.secrets import note_secret

NO_KEY = "no-key-needed"
"""The key that is sent to a service that wants none. Without it, the client would send OPENAI_API_KEY to any
service."""


def find_key(variable: str) -> str:
    """Return the key that an environment variable holds; "" if it is not set, or holds only white space.

    No message of this process shows the key from then on; see `secrets.scrubbed`.
    """
    key = os.environ.get(variable, "").strip()
    note_secret(key)
    return key


def api_key(variable: str | None) -> str:
    """Return the key that an environment variable holds, or `NO_KEY` if no variable is named.

    Raises:
        NotAtHand: the variable is not set or empty.
    """
    if variable is None:
        return NO_KEY
    key = find_key(variable)
    if not key:
        raise NotAtHand(
            variable, f"the environment variable {variable} must hold the service's key; it is empty or not set"
        )
    return key
