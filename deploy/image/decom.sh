#!/bin/sh
# Kubernetes runs this in an executor's pod before it stops it; Spark looks for it in /opt. The executor takes no more
# tasks, and ends once those that it has are done. The container ends with it, and so does this program.
kill -s PWR "${1:-1}" # dumb-init gives the signal to Java
exec sleep infinity
