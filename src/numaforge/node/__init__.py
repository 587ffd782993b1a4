"""What a node carries out by itself: the transaction, and the parts of a maintenance."""
