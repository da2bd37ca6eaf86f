"""Settings: what a benchmark file may say, and how a name becomes a row."""
