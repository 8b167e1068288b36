"""Secure aggregation: the coordinator learns the sum of the sites' vectors only.

terms, graph         what is agreed; who masks with whom, and the thresholds
ring, prg, shamir    integers modulo 2^64, masks, shares
keys                 X25519, Ed25519, AES-GCM
wire, messages       the bytes that travel
session              what everything is bound to
site, coordinator    the two ends, without any input or output
opening              removing the masks
conversation         both ends over bytes, a process a message
in_process           the whole protocol in one call
"""
