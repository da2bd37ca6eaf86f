"""What a benchmark file may say, and how names become rows."""
