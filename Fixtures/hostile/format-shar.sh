#!/bin/sh
# This is a shell archive
cat > index.html <<'END'
<!doctype html><title>fixture</title>
END
