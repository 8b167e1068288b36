"""Reports: tables and plots of numbers that others have computed."""
