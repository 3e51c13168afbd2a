/** `design-schema`: designs tables from requirements, for a kind of workload. */
import type { Prompt } from '../core/prompt.ts'
import { beginningWith, boundedArgument, chosenArgument, quoted, userMessage } from './messages.ts'

const description = 'Design tables for requirements'
const useCases = ['general', 'oltp', 'olap', 'hybrid'] as const
const flags = ['false', 'true'] as const

const advice: Readonly<Record<(typeof useCases)[number], string>> = {
  general: 'Normalize to third normal form. Leave it only for a reason that you state.',
  oltp: 'It serves many short transactions. Normalize to third normal form, keep rows narrow, index what statements look up and every foreign key, and nothing else.',
  olap: 'It serves analysis. Make fact and dimension tables, partition facts by time, prefer BRIN and few B-trees, and say which sums to keep in materialized views and how to refresh them.',
  hybrid:
    'It serves short transactions and analysis at once. Normalize what is written, keep reports away from it by materialized views or a replica, and partition what grows with time.',
}

const full = `Make it complete: comments on tables and columns, CHECK constraints for every rule, enums or lookup tables with their values, row-level security where rows have owners, triggers only where a constraint cannot do it, sample rows, and the order in which to migrate.`
const small =
  'Keep it small: what the requirements ask for and no more. Name in one line each what you have left out on purpose.'

const textFor = (
  requirements: string,
  useCase: (typeof useCases)[number],
  isFull: boolean,
) => `Design a Postgres schema for these requirements:

${quoted(requirements)}

${advice[useCase]}
${isFull ? full : small}

1. Call get_schema_info to see what is there: reuse it, and keep to its names and types.
2. Ask me before you design if a requirement can be read in two ways that lead to different tables.
3. Rules: bigint identity or uuidv7 keys; timestamptz, not timestamp; text, not varchar(n), unless the length is a rule; numeric for money; NOT NULL unless absence means something; foreign keys with a stated ON DELETE.
4. Give one SQL script in one transaction that runs as it is, then a table of the statements that it will serve, each with the index that serves it.
Do not run it.`

export const designSchema: Prompt = {
  definition: {
    name: 'design-schema',
    title: 'Design a schema',
    description,
    arguments: [
      { name: 'requirements', description: 'The data to store and the questions to answer', required: true },
      { name: 'use_case', description: `One of ${useCases.join(', ')}` },
      { name: 'full_featured', description: 'true: with comments, checks, security and sample rows' },
    ],
  },
  get: async args => {
    const requirements = boundedArgument(args, 'requirements')
    const isFull = chosenArgument(args, 'full_featured', flags) === 'true'
    return userMessage(description, textFor(requirements, chosenArgument(args, 'use_case', useCases), isFull))
  },
  complete: async (argument, value) => {
    if (argument === 'use_case') return beginningWith(useCases, value)
    return argument === 'full_featured' ? beginningWith(flags, value) : []
  },
}
