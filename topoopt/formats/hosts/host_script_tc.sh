RENDERING=tc
HANDLE=7106

# Refuses to replace a queueing discipline of others; handle 0 is the kernel's own.
own_qdisc() {
  local held
  [ "$MODE" = dry-run ] && return
  held=$(tc qdisc show dev "$1" root)
  case $held in
    '' | *" 0: root"* | *" $HANDLE: root"*) ;;
    *) die "$1 has a queueing discipline that is not ours" ;;
  esac
}

teardown_host() {
  local one
  tell "queueing disciplines with our handle, $HANDLE:"
  if [ "$MODE" = dry-run ]; then
    run tc qdisc del dev INTERFACE root
  else
    for one in $(ip -o link show | cut -d: -f2 | cut -d@ -f1); do
      case $(tc qdisc show dev "$one" root) in
        *" $HANDLE: root"*) tc qdisc del dev "$one" root ;;
      esac
    done
  fi
  forget_routing
  forget_state
}
