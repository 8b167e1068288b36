"""Private evaluation inside Flower apps, by Flower's public interface."""
