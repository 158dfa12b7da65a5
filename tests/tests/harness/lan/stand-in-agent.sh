#!/bin/sh
# Stands in for the agent in the tests of the library itself: logs, obeys signals, and pins a file.
command=$1
pin_dir=$3
case $command in
agent)
    config=$5
    say() { echo "{\"level\":\"INFO\",\"fields\":{\"message\":\"$1\",\"detail\":\"$2\"}}"; }
    mkdir -p "$pin_dir"
    trap 'say terminated; exit 7' TERM
    say capabilities "$(sed -n 's/^CapBnd:\t*//p' /proc/self/status)"
    say network "$(readlink /proc/self/ns/net)"
    say started "$(cat "$config")"
    # The shell answers a signal only between two commands.
    while :; do sleep 0.02; done
    ;;
status)
    echo "{\"pin_dir\":\"$pin_dir\"}"
    ;;
unload)
    rmdir "$pin_dir"
    ;;
esac
