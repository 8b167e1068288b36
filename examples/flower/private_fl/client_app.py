"""The hospital's end: training as usual, and one line for private evaluation."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from discreet.flower import add_evaluation
from private_fl.task import from_arrays, load_data, to_arrays

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Fit the global model a little further on this hospital's patients."""
    x, y = load_data(context, part="train")
    model = from_arrays(message.content.array_records["arrays"])
    model.fit(x, y)
    content = RecordDict(
        {
            "arrays": to_arrays(model),
            "metrics": MetricRecord({"num-examples": len(y)}),
        }
    )
    return Message(content, reply_to=message)


def scores_and_labels(
    model: ArrayRecord | None, context: Context
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Score this hospital's test patients with the global model."""
    if model is None:
        raise ValueError("the server sends the model along")
    x, y = load_data(context, part="test")
    return from_arrays(model).predict_proba(x)[:, 1], y


add_evaluation(app, scores_and_labels)
