RENDERING=ovs
COOKIE=0x746f706f
DATAPATH=${TOPOOPT_DATAPATH:-system}

vsctl() {
  run ovs-vsctl --timeout=30 "$@"
}

# A bridge and a port that are there already stay, also after teardown.
bridge() {
  local holder
  if [ "$MODE" = dry-run ]; then
    tell 'unless it is there:'
    vsctl add-br "$1" -- set bridge "$1" "datapath_type=$DATAPATH" "external_ids:owner=$OWNER"
    tell 'unless it is there:'
    vsctl add-port "$1" "$2" -- set port "$2" "external_ids:owner=$OWNER"
  else
    if ! ovs-vsctl --timeout=30 br-exists "$1"; then
      vsctl add-br "$1" -- set bridge "$1" "datapath_type=$DATAPATH" "external_ids:owner=$OWNER"
    fi
    holder=$(ovs-vsctl --timeout=30 port-to-br "$2" 2>/dev/null || true)
    if [ -z "$holder" ]; then
      [ -z "$(ip -o -4 address show dev "$2")" ] || die "$2 has an address: move it to $1 first, or remove it"
      vsctl add-port "$1" "$2" -- set port "$2" "external_ids:owner=$OWNER"
    elif [ "$holder" != "$1" ]; then
      die "$2 is a port of $holder, not of $1"
    fi
  fi
  run ip link set "$2" up
  run ip link set "$1" up
}

# The userspace datapath takes set_queue and ignores it: there, filters on the same classes do its work.
classify() {
  [ "$DATAPATH" = netdev ] || return 0
  run tc filter add dev "$1" parent 1: protocol ip prio "$4" u32 match ip dst "$2/32" flowid "1:$3"
}

# Refuses to replace QoS of others.
own_qos() {
  local qos
  [ "$MODE" = dry-run ] && return
  qos=$(ovs-vsctl --timeout=30 --if-exists get port "$1" qos)
  case $qos in
    '' | '[]') return ;;
  esac
  case $(ovs-vsctl --timeout=30 --if-exists get qos "$qos" external_ids:owner) in
    "$OWNER" | "\"$OWNER\"") ;;
    *) die "$1 has QoS that is not ours" ;;
  esac
}

teardown_host() {
  local one port
  if [ "$MODE" = dry-run ]; then
    tell 'flows with our cookie, on every bridge'
    run ovs-ofctl -O OpenFlow13 del-flows BRIDGE "cookie=$COOKIE/-1"
    tell "QoS, queues, ports and bridges with external_ids:owner=$OWNER, none else"
    vsctl clear port PORT qos
    vsctl destroy qos UUID
    vsctl destroy queue UUID
    vsctl del-port PORT
    vsctl del-br BRIDGE
  else
    for one in $(ovs-vsctl --timeout=30 list-br); do
      ovs-ofctl -O OpenFlow13 del-flows "$one" "cookie=$COOKIE/-1"
    done
    for one in $(ours qos _uuid); do
      for port in $(ovs-vsctl --timeout=30 --bare --columns=name find port "qos=$one"); do
        vsctl clear port "$port" qos
      done
      vsctl destroy qos "$one"
    done
    for one in $(ours queue _uuid); do vsctl destroy queue "$one"; done
  fi
  forget_routing
  forget_state
  if [ "$MODE" != dry-run ]; then
    for one in $(ours port name); do vsctl --if-exists del-port "$one"; done
    for one in $(ours bridge name); do vsctl --if-exists del-br "$one"; done
  fi
}

ours() {
  ovs-vsctl --timeout=30 --bare "--columns=$2" find "$1" "external_ids:owner=$OWNER"
}
