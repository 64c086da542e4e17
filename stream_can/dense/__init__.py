"""Rows with a probability for each class and one label."""
