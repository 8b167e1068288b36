"""Sites and coordinator as Flower apps: the letters travel as ``query`` messages."""
