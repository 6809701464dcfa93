package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/moqrelay/operator/relay/config"
)

// newValidate is `moq-relay validate FILE`.
func (p *program) newValidate() *cobra.Command {
	var live string
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a configuration file",
		Long:  "validate checks a file by itself, flags and environment aside, and lists everything that is wrong with it.",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := config.Load(config.Source{File: args[0], LiveFile: live}); err != nil {
				return fail(err)
			}
			fmt.Fprintf(p.stdout, "%s is valid\n", args[0])
			return nil
		},
	}
	cmd.Flags().StringVar(&live, "live-config", "", "second YAML file that is used together with it")
	return cmd
}

// newConfig is `moq-relay config`.
func (p *program) newConfig() *cobra.Command {
	var flags configFlags
	var dev bool
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the configuration that all sources give",
		Long:  "config joins files, environment and flags as serve does, and prints the result as a file that says the same.",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			loaded, err := config.Load(flags.sourceFor(dev, p.env))
			if err != nil {
				return fail(err)
			}
			_, err = p.stdout.Write(loaded.Config.Marshal())
			return err
		},
	}
	flags.register(cmd.Flags())
	registerDev(cmd.Flags(), &dev)
	return cmd
}
