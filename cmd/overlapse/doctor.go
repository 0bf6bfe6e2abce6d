package main

import (
	"github.com/spf13/cobra"

	"github.com/overlapse/overlapse/cmd/overlapse/internal/cli"
	"github.com/overlapse/overlapse/cmd/overlapse/internal/doctor"
)

func (a *app) doctorCommand() *cobra.Command {
	var format string
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Check what this machine has: locale, terminal, GPUs and their profile, Python for captures",
		Long: `Checks what timelines, replays and captures use on this machine. Every line is ok
or missing, with what that means and what to do. The exit code is 1 only if something is
missing that every command needs.

GPUs are found through nvidia-smi, /proc/driver/nvidia, rocm-smi and /sys/class/kfd. Nothing
is sent anywhere.`,
		Example: "  overlapse doctor\n  overlapse doctor --format json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return cli.Errorf("doctor takes no arguments, not %q", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			return doctor.Examine(c.Context(), a.Console, doctor.Here(), version(), format)
		},
	}
	cli.ChoiceFlag(c, &format, "format", "table", "table or json", "table", "json")
	return c
}
