"""Correct sparse rows: of many classes they give the k likeliest."""

from stream_can.sparse.corrector import SparseCorrector
from stream_can.sparse.rows import SparseRow, SparseRows
from stream_can.sparse.scores import SparseScores

__all__ = ["SparseCorrector", "SparseRow", "SparseRows", "SparseScores"]
