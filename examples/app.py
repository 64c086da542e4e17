"""A web service that corrects predictions and learns from labels that come hours later.

Run it in one process, from the folder where its database is to lie::

    pip install fastapi uvicorn
    uvicorn --app-dir examples app:app --port 8000
"""

import json
import sqlite3
import threading
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from stream_can import Corrector, Learner, StreamCANError

CLASSES = ["fraud", "fine"]


class Service:
    """A learner, and a database of what it has taken since its state was last saved."""

    def __init__(self, path: Path, classes: list[str]) -> None:
        self.lock = threading.Lock()
        self.database = sqlite3.connect(path, check_same_thread=False)
        self.database.execute("CREATE TABLE IF NOT EXISTS state (learner BLOB)")
        self.database.execute("CREATE TABLE IF NOT EXISTS events (id, probs, label)")
        found = self.database.execute("SELECT learner FROM state").fetchone()
        self.learner = (
            Learner.from_bytes(found[0], classes) if found else Learner(Corrector(classes))
        )
        events = self.database.execute("SELECT * FROM events ORDER BY rowid").fetchall()
        for id, probs, label in events:  # after a crash; the same bits again
            if probs is not None:
                self.learner.process(id, json.loads(probs))
            else:
                self.learner.label(id, label)

    def predict(self, id: str, probs: list[float]) -> list[float]:
        with self.lock, self.database:
            better = self.learner.process(id, probs)  # what is refused raises, and is not kept
            self._keep(id, json.dumps(probs), None)
        return better.tolist()

    def label(self, id: str, label: str) -> str:
        with self.lock, self.database:
            outcome = self.learner.label(id, label)
            self._keep(id, None, label)
        return outcome

    def _keep(self, id: str, probs: str | None, label: str | None) -> None:
        inserted = self.database.execute("INSERT INTO events VALUES (?, ?, ?)", (id, probs, label))
        if inserted.lastrowid % 1000 == 0:
            self._save()

    def _save(self) -> None:
        self.database.execute("DELETE FROM state")
        self.database.execute("INSERT INTO state VALUES (?)", (self.learner.to_bytes(),))
        self.database.execute("DELETE FROM events")

    def close(self) -> None:
        with self.lock, self.database:
            self._save()
        self.database.close()


@asynccontextmanager
async def lifespan(app: FastAPI):
    app.state.service = Service(Path("learner.sqlite"), CLASSES)  # goes on where it stopped
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


@app.post("/label")
def learn(label: Label) -> dict[str, str]:
    return {"outcome": app.state.service.label(label.id, label.label)}
