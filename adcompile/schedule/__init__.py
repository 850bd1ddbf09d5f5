"""From the graph IR to loop nests."""
