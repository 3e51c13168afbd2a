/** `diagnose-query-issue`: finds the cause of a query's problem from evidence. */
import type { Prompt } from '../core/prompt.ts'
import { boundedArgument, quoted, userMessage } from './messages.ts'

const description = 'Find out why a query is slow, fails or gives the wrong rows'

const textFor = (issue: string) => `Something is wrong with a query:

${quoted(issue)}

Find the cause by evidence, not by guesses.

1. If the statement is not given, find it: top_queries for what is slow in general, the resource pg://activity for what runs now.
2. get_schema_info for every table in it: types of the columns compared, indexes, keys.
3. Wrong rows or an error: take the statement apart by query_database, one join or condition at a time, until the step is found that goes wrong. Look for NULLs in comparisons, joins that multiply rows, time zones, and types that are converted.
4. Slow: execute_explain without analyze first; with analyze where it may run. Compare estimated with actual rows from the leaves upwards; the first node that is off by more than ten times is the place. Then advise_indexes with the statement.
5. Nothing in the statement: check_health (vacuum, bloat, transactions, cache).

Report: the cause with the numbers that show it, the smallest change that cures it as SQL, what that costs, and how to see that it worked. Change nothing yourself.`

export const diagnoseQueryIssue: Prompt = {
  definition: {
    name: 'diagnose-query-issue',
    title: 'Diagnose a query',
    description,
    arguments: [
      { name: 'issue_description', description: 'What happens, with the statement if known', required: true },
    ],
  },
  get: async args => userMessage(description, textFor(boundedArgument(args, 'issue_description'))),
}
