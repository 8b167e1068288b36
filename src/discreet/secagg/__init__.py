"""Secure aggregation: the coordinator learns the sum of the sites' vectors only.

terms, graph         what is agreed and bound together; who masks with whom
keys, shamir, masks  agreement, signatures, boxes; shares; masks on and off
messages             what travels (its bytes: discreet.codec.messages)
site, site_state     a site's end, one function for each step, and its states
coordinator          the other end, one type for each round
errors               who is at fault

Nothing here reads or writes: ``discreet.session.protocols.secure_sum`` joins both ends
to a plan, an account and a transport.
"""
