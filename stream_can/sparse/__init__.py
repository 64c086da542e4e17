"""Correct rows that list the k likeliest of very many classes."""

from stream_can.sparse.corrector import SparseCorrector, SparseRow, SparseRows
from stream_can.sparse.scores import SparseScores

__all__ = ["SparseCorrector", "SparseRow", "SparseRows", "SparseScores"]
