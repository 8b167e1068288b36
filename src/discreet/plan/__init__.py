"""The plan: what is asked, of whom, under which privacy; public and agreed."""
