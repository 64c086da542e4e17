"""Rows of the k likeliest of very many classes."""

from stream_can.sparse.corrector import SparseCorrector, SparseRow, SparseRows

__all__ = ["SparseCorrector", "SparseRow", "SparseRows"]
