#!/usr/bin/env bash
# NumPy 2.4.6. Usual guess: `import numpy` imports numpy.random, as it did in NumPy 1.26, so a process that gives up opening files
# after its imports can draw random numbers. Behaviour: numpy.random, numpy.fft and numpy.polynomial are imported at their first use;
# numpy.linalg is there at once. Output seen:
#   1.26.4 random True fft True polynomial True linalg True
#   2.4.6 random False fft False polynomial False linalg True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
seen=""
for version in 1.26.4 2.4.6; do
    python3 -m venv "$folder/$version"
    "$folder/$version/bin/pip" install --quiet --disable-pip-version-check "numpy==$version" 2>"$folder/log"
    seen+=$("$folder/$version/bin/python" -c "
import sys, numpy
print(numpy.__version__, *(f'{part} {f\"numpy.{part}\" in sys.modules}' for part in ('random', 'fft', 'polynomial', 'linalg')))
")$'\n'
done
printf '%s' "$seen"
[ "$seen" = "1.26.4 random True fft True polynomial True linalg True
2.4.6 random False fft False polynomial False linalg True
" ]
