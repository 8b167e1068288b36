"""Secure aggregation: the coordinator learns the sum of the sites' vectors only.

terms, graph         what is agreed and bound together; who masks with whom
keys, shamir, masks  agreement, signatures, boxes; shares; masks on and off
messages             what travels (bytes by discreet.codec.messages)
site, coordinator    the two ends, without any input or output, and their states
errors               who is at fault
conversation         both ends over bytes, a process a message
in_process           the whole protocol in one call
"""
