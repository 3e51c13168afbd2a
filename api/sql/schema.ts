/** Requests and response lines of the SQL endpoint. */
import { z } from 'zod'
import { userType } from '../schemas/common.ts'
import { input, output } from '../schemas/components.ts'

/** Splitting a text of this length blocks the process for less than 10 ms. */
const longestText = 65_536
const mostParameters = 1_000
const mostRows = 10_000_000
/** The time limit of one statement, and of all statements of a request together. */
export const mostSeconds = 600

export const sqlInput = input(
  'SqlRequest',
  z
    .strictObject({
      text: z.string().min(1).max(longestText).describe('One or more statements, separated by semicolons.'),
      mode: z
        .enum(['read', 'write'])
        .default('read')
        .describe(
          '`read`: the statements run in one READ ONLY transaction with one snapshot. The transaction is rolled back. Only SELECT, VALUES, TABLE, WITH, SHOW and EXPLAIN are accepted. `write`: each statement is committed by itself, unless the text begins a transaction.',
        ),
      role: userType
        .optional()
        .describe('The role. Omitted: `application_read_only` for a read, `application` for a write.'),
      parameters: z
        .array(z.union([z.string(), z.number(), z.boolean(), z.null()]))
        .max(mostParameters)
        .optional()
        .describe('Values of $1, $2 and so on, for a text of one statement.'),
      explain: z
        .enum(['plan', 'analyze'])
        .optional()
        .describe(
          'Returns the plan as JSON, for a text of one statement. `analyze` also runs the statement, and rolls back its changes.',
        ),
      max_rows: z
        .int()
        .min(1)
        .max(mostRows)
        .default(10_000)
        .describe('The maximum number of rows to return for each statement.'),
      timeout_seconds: z
        .int()
        .min(1)
        .max(mostSeconds)
        .default(30)
        .describe(
          'The time limit of each statement in seconds, including reading its rows. All statements together may take about 600 seconds.',
        ),
    })
    .meta({ description: 'Statements to run.', example: { text: 'SELECT id, name FROM customers ORDER BY id' } }),
)
export type SqlInput = z.output<typeof sqlInput>

const column = output(
  'SqlColumn',
  z
    .strictObject({
      name: z.string().describe('The name.'),
      type: z.int().describe("The oid of the column's type in pg_type."),
      table: z.int().optional().describe("The oid of the column's table in pg_class. Absent for an expression."),
      column: z.int().optional().describe('The number of the column in that table.'),
    })
    .meta({ description: 'A column of a result.', example: { name: 'id', type: 23, table: 16400, column: 1 } }),
)

export const sqlLine = output(
  'SqlLine',
  z
    .strictObject({
      type: z
        .enum(['columns', 'rows', 'notice', 'complete', 'error'])
        .describe('`columns` and `rows` are a result, `complete` ends a statement, `error` ends the response.'),
      statement: z.int().describe('The number of the statement in the text, counted from 0.'),
      columns: z.array(column).optional().describe('In a line `columns`: the columns of the rows that follow.'),
      rows: z
        .array(z.array(z.union([z.string(), z.null()])))
        .optional()
        .describe('In a line `rows`: a part of the rows. Each value is the text that Postgres sends, or null.'),
      command: z.string().optional().describe('In a line `complete`: the command, for example `SELECT`.'),
      row_count: z
        .int()
        .optional()
        .describe(
          'In a line `complete`: the number of returned rows, or of changed rows if the statement returns none.',
        ),
      ms: z
        .int()
        .optional()
        .describe("In a line `complete`: the milliseconds from the statement's start until the last row was read."),
      more: z
        .boolean()
        .optional()
        .describe('In a line `complete`: whether the statement has more rows than `max_rows`.'),
      severity: z.string().optional().describe('In a line `notice`: `NOTICE`, `WARNING` and so on.'),
      sqlstate: z.string().optional().describe('In a line `notice` or `error`: the SQLSTATE.'),
      message: z.string().optional().describe('In a line `notice` or `error`: what happened.'),
      position: z
        .int()
        .optional()
        .describe('In a line `error`: the position in the text, in characters, counted from 1.'),
      detail: z.string().optional().describe('In a line `notice` or `error`: more details.'),
      hint: z.string().optional().describe('In a line `notice` or `error`: a hint.'),
      where: z
        .string()
        .optional()
        .describe('In a line `notice` or `error`: the call stack of functions in which the line arose.'),
    })
    .meta({ description: 'One line of the response.', example: { type: 'rows', statement: 0, rows: [['1', null]] } }),
)
