"""A page for people who give the labels that a worker asks for."""
