"""A web service that corrects predictions and learns from labels that come hours later.

Run it in one process, from the folder where its state is to lie::

    pip install fastapi uvicorn
    uvicorn --app-dir examples app:app --port 8000
"""

import json
import sqlite3
import threading
import time
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from stream_can import Corrector, StreamCANError
from stream_can.snapshot import save

CLASSES = ["fraud", "fine"]
DAY = 86_400


class Service:
    """Corrects predictions, keeps them until their label comes, learns, saves."""

    def __init__(self, folder: Path, classes: list[str]) -> None:
        self.state = folder / "corrector.state"
        if self.state.exists():
            self.corrector = Corrector.from_bytes(self.state.read_bytes(), classes)
        else:
            self.corrector = Corrector(classes)
        self.lock = threading.Lock()
        self.database = sqlite3.connect(folder / "waiting.db", check_same_thread=False)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS waiting"
            " (id TEXT PRIMARY KEY, made REAL, probs TEXT, receipt BLOB)"
        )
        self.unsaved = 0

    def predict(self, request_id: str, probs: list[float]) -> list[float]:
        with self.lock:
            # raises before anything is kept
            better, receipt = self.corrector.process_one(probs, receipt=True)
            self.database.execute(
                "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)",
                (request_id, time.time(), json.dumps(probs), receipt.tobytes()),
            )
            self.database.commit()
        return better.tolist()

    def label(self, request_id: str, label: str) -> None:
        with self.lock:
            found = self.database.execute(
                "SELECT probs, receipt FROM waiting WHERE id = ?", (request_id,)
            ).fetchone()
            # raises where the label is refused, and the prediction waits for another one
            if found:
                receipt = np.frombuffer(found[1], np.float32)
                self.corrector.learn_one(json.loads(found[0]), label, receipt=receipt)
            else:  # too old, or a second label: it still teaches the class mix
                self.corrector.learn_one(None, label)
            self.database.execute(
                "DELETE FROM waiting WHERE id = ? OR made < ?", (request_id, time.time() - 30 * DAY)
            )
            self.unsaved += 1
            if self.unsaved >= 100:
                self.save()
            self.database.commit()

    def save(self) -> None:
        save(self.corrector.to_bytes(), self.state)  # whole at every moment
        self.unsaved = 0

    def close(self) -> None:
        with self.lock:
            self.save()
            self.database.close()


@asynccontextmanager
async def lifespan(app: FastAPI):
    app.state.service = Service(Path(), CLASSES)  # goes on where it was saved
    yield
    app.state.service.close()


app = FastAPI(lifespan=lifespan)


class Prediction(BaseModel):
    id: str
    probs: list[float]
    """As the classifier made them, in the order of CLASSES."""


class Label(BaseModel):
    id: str
    label: str


@app.exception_handler(StreamCANError)
async def refused(request: Request, error: StreamCANError) -> JSONResponse:
    """No probability vector, or none of the classes: nothing was kept and nothing learned."""
    return JSONResponse({"detail": str(error)}, status_code=400)


# Not async: they write to a disk, so FastAPI runs them in threads.
@app.post("/predict")
def correct(prediction: Prediction) -> dict[str, list[float]]:
    return {"probs": app.state.service.predict(prediction.id, prediction.probs)}


@app.post("/label", status_code=204)
def learn(label: Label) -> None:
    app.state.service.label(label.id, label.label)
