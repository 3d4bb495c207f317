"""The same work in other libraries, each as its own documentation says, with its durable settings."""
