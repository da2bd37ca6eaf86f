"""HARD NEGATIVES: whether a system is fooled by passages that look right and support another conclusion"""
