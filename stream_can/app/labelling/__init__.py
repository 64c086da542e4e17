"""The labelling page: people give the labels that a worker requests."""
