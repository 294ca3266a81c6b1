MODE=${1:-dry-run}
STATE=${TOPOOPT_STATE_DIR:-/run/topoopt}/state
OWNER=topoopt
PROTOCOL=106
APPLYING=

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  [ -z "$APPLYING" ] || failed
  exit 1
}

# Prints a command in a dry run, executes it otherwise.
run() {
  if [ "$MODE" = dry-run ]; then
    printf '  %q' "$1"
    shift
    [ $# -eq 0 ] || printf ' %q' "$@"
    printf '\n'
  else
    "$@"
  fi
}

tell() {
  if [ "$MODE" = dry-run ]; then printf '# %s\n' "$*"; fi
}

need() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || die "$tool is not installed"
  done
}

# What teardown must undo besides what carries our mark; before the change, so that a failure is undone too.
record() {
  mkdir -p "${STATE%/*}"
  printf '%s\n' "$*" >>"$STATE"
}

# An address that is there already stays, also after teardown.
address() {
  if [ "$MODE" = dry-run ]; then
    run ip address add "$1" dev "$2"
    return
  fi
  case " $(ip -o -4 address show dev "$2") " in
    *" inet $1 "*) return ;;
  esac
  record address "$1" "$2"
  ip address add "$1" dev "$2"
}

# The address of the hardware that neighbours send to; the old one comes back at teardown.
hardware() {
  local old
  if [ "$MODE" = dry-run ]; then
    run ip link set dev "$1" address "$2"
    return
  fi
  old=$(cat "/sys/class/net/$1/address")
  if [ "$old" != "$2" ]; then
    record hardware "$1" "$old"
    ip link set dev "$1" address "$2"
  fi
}

# Fibres of one interface may end at two servers, so that nobody could answer a question for an address.
neighbour() {
  if [ "$MODE" != dry-run ]; then record neighbour "$1" "$3"; fi
  run ip neigh replace "$1" lladdr "$2" dev "$3" nud permanent
}

setting() {
  local file=/proc/sys/${1//.//} old
  if [ "$MODE" = dry-run ]; then
    run sysctl -w "$1=$2"
    return
  fi
  old=$(cat "$file")
  if [ "$old" != "$2" ]; then
    record setting "$1" "$old"
    printf '%s\n' "$2" >"$file"
  fi
}

# Refuses a routing table that holds routes of others.
own_table() {
  local all ours
  [ "$MODE" = dry-run ] && return
  all=$(ip route show table "$1" 2>/dev/null || true)
  ours=$(ip route show table "$1" proto "$PROTOCOL" 2>/dev/null || true)
  [ "$(grep -c . <<<"$all")" = "$(grep -c . <<<"$ours")" ] || die "routing table $1 is in use"
}

# Refuses to stand beside the other rendering.
own_state() {
  [ "$MODE" = dry-run ] && return
  if [ -e "$STATE" ] && ! grep -qx "rendering $1" "$STATE"; then
    die "another rendering is applied: tear it down first"
  fi
}

forget_routing() {
  tell 'rules and routes that carry our mark'
  run ip rule flush protocol "$PROTOCOL" || true
  if [ "$MODE" = dry-run ]; then
    run ip route flush table all proto "$PROTOCOL"
  else
    ip route flush table all proto "$PROTOCOL" 2>/dev/null || true
  fi
}

forget_state() {
  local what one other
  tell "addresses and settings that $STATE lists"
  [ "$MODE" = dry-run ] && return
  [ -e "$STATE" ] || return 0
  while read -r what one other; do
    case $what in
      address) ip address del "$one" dev "$other" 2>/dev/null || true ;;
      hardware) ip link set dev "$one" address "$other" 2>/dev/null || true ;;
      neighbour) ip neigh del "$one" dev "$other" 2>/dev/null || true ;;
      setting) printf '%s\n' "$other" >"/proc/sys/${one//.//}" || true ;;
    esac
  done < <(tac "$STATE")
  rm -f "$STATE"
  rmdir "${STATE%/*}" 2>/dev/null || true
}

failed() {
  trap - ERR
  APPLYING=
  printf '%s: a command failed; undoing what was done\n' "${0##*/}" >&2
  set +e
  teardown_host
  exit 1
}

main() {
  case $MODE in
    dry-run)
      printf '# Dry run of %s: nothing is changed. Apply:\n' "${0##*/}"
      apply_host
      printf '# Teardown:\n'
      teardown_host
      ;;
    apply)
      own_state "$RENDERING"
      preflight
      teardown_host
      APPLYING=yes
      trap failed ERR
      record rendering "$RENDERING"
      apply_host
      trap - ERR
      printf 'applied\n'
      ;;
    teardown)
      own_state "$RENDERING"
      teardown_host
      printf 'torn down\n'
      ;;
    *) die 'usage: [dry-run|apply|teardown]' ;;
  esac
}
