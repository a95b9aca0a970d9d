"""The HTTP edge: wires below, one seam, routes above."""
