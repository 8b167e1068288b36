"""A scikit-learn model trained with FedAvg and evaluated by discreet."""
