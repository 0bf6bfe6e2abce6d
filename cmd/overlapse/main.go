// Command overlapse replays captured GPU traces on a modelled multi-GPU
// machine under every strategy of overlapping computation with communication.
package main

import (
	"os"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
)

func main() {
	os.Exit(run(os.Args[1:], newApp(cli.Terminal())))
}
