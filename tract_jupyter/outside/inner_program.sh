#!/bin/sh
# Start the program of an agent's adapter with more options. The adapter has no setting for options of its start.
exec node "$TRACT_INNER_PROGRAM" $TRACT_INNER_OPTIONS "$@"
