"""The lab's report: known policies and ``even`` under one set of measures, published figures beside our own."""
