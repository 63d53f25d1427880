// Package zkrecipes is the shared vocabulary of the recipes: [Hold], [Token], [Participant] and the errors.
package zkrecipes
