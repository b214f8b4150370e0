"""What requests and answers look like, one module per noun."""
