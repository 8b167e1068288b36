"""The papers' own methods, by name: to compare with. Nothing else imports them."""
