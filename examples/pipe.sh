#!/bin/sh
# Predictions and late labels through a pipe: corrected lines come out, the state stays in a file.
set -eu
cd "$(mktemp -d)"
cat > stream.jsonl <<'LINES'
{"id": 1, "text": "win a prize now", "probs": {"spam": 0.55, "ham": 0.45}}
{"id": 2, "text": "lunch at noon?", "probs": {"spam": 0.30, "ham": 0.70}}
{"id": 1, "label": "spam"}
{"id": 3, "text": "a prize for you", "probs": {"spam": 0.52, "ham": 0.48}}
LINES
stream-can pipe --classes spam,ham --state corrector.state < stream.jsonl
echo '{"id": 2, "label": "ham"}' | stream-can pipe --state corrector.state    # goes on where it was
stream-can inspect corrector.state
