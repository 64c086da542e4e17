"""kafka-python behind calls with time limits and four kinds of errors; its pitfalls stay in
here."""
