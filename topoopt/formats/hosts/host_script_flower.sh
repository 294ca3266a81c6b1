RENDERING=flower

# Refuses to share the entry of an interface with filters of others.
own_entry() {
  local held
  [ "$MODE" = dry-run ] && return
  held=$(tc qdisc show dev "$1" clsact 2>/dev/null || true)
  [ -z "$held" ] || grep -qx "entry $1 -" "$STATE" 2>/dev/null || die "$1 has filters at its entry that are not ours"
}

entry() {
  if [ "$MODE" != dry-run ]; then record entry "$1" -; fi
  run tc qdisc add dev "$1" clsact
}

teardown_host() {
  local what one rest
  tell 'filters at the entry of our interfaces'
  if [ "$MODE" = dry-run ]; then
    run tc qdisc del dev INTERFACE clsact
  elif [ -e "$STATE" ]; then
    while read -r what one rest; do
      if [ "$what" = entry ]; then tc qdisc del dev "$one" clsact 2>/dev/null || true; fi
    done <"$STATE"
  fi
  forget_routing
  forget_state
}
