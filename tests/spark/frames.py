"""DataFrames of rows of probabilities, in each kind of column."""

import numpy as np
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import types as T

M = 4
CLASSES = ["a", "b", "c", "d"]


def rows(n, seed=0, m=M):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(m, 0.5), n)
    P[rng.random(n) < 0.1] = np.eye(m)[0]  # zeros, for sparse vectors
    return P


def sparse(p):
    return Vectors.sparse(M, {i: float(x) for i, x in enumerate(p) if x})


KINDS = {
    "array<double>": (T.ArrayType(T.DoubleType()), lambda p: p.tolist()),
    "array<float>": (T.ArrayType(T.FloatType()), lambda p: p.astype(np.float32).tolist()),
    "dense": (VectorUDT(), lambda p: Vectors.dense(p)),
    "sparse": (VectorUDT(), sparse),
    "mixed": (VectorUDT(), lambda p: sparse(p) if p[0] == 1 else Vectors.dense(p)),
}


def frame(spark, P, kind, null=()):
    column, make = KINDS[kind]
    schema = T.StructType().add("id", T.LongType()).add("probability", column).add("s", "string")
    data = [(i, None if i in null else make(p), f"s{i}") for i, p in enumerate(P)]
    return spark.createDataFrame(data, schema)
