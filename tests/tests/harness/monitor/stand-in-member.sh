#!/bin/sh
# Stands in for a member of a cluster: runs a standalone agent with the file that the test has written for the node.
case $1 in
kubernetes)
    pin_dir=$3
    shift 3
    while [ $# -gt 0 ]; do
        case $1 in
        --node-name) node=$2 ;;
        --kubeconfig) grep -q '"current-context"' "$2" || exit 9 ;;
        esac
        shift
    done
    exec "$STAND_IN_FOR" agent --pin-dir "$pin_dir" --config "$STAND_IN_CONFIGS/$node.yaml" --log-format json
    ;;
*)
    exec "$STAND_IN_FOR" "$@"
    ;;
esac
