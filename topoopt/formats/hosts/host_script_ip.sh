RENDERING=ip

teardown_host() {
  forget_routing
  forget_state
}
