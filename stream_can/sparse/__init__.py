"""Rows of the k likeliest of very many classes."""

from stream_can.sparse.corrector import Sent, SparseCorrector

__all__ = ["Sent", "SparseCorrector"]
