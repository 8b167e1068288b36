"""Label privacy: the scores are public, the labels are not.

Rank sums give the AUC, and nothing else, with little noise.
"""
