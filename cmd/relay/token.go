package main

import (
	"github.com/spf13/cobra"
)

// newToken is `moq-relay token`.
func (p *program) newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and check tokens for auth.mode JWT, and their keys",
		Long: "token works on files and pipes alone; it asks no relay. Keys and tokens are those of the public packages\n" +
			"moq-token and @moq/token.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(p.newKeygen(), p.newSign(), p.newVerify())
	return cmd
}
