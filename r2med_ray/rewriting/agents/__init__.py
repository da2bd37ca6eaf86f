"""Search agents: loops in which a language model searches while it reasons."""
