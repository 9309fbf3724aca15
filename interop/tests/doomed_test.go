package tests

const doomedVariable = "INTEROP_DOOMED_WORKER"

func workUntilKilled() {}
