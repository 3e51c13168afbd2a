/** Renders a function call as the source of rows. */

import type { Bytes } from '../../../wire/messages.ts'
import { qualified, quoteIdentifier } from '../../postgres/quote.ts'
import type { Argument, CallArguments, Plan } from '../plan/types.ts'
import { arrayBytes, type StatementWriter, type Value } from './statement.ts'

type CallPlan = Extract<Plan, { kind: 'call' }>

/** Bytes are sent in binary: their text form would be twice as long. */
const unnamedValue = (value: Bytes | string, type: string): Value =>
  type === 'bytea' ? { binary: typeof value === 'string' ? Buffer.from(value) : value } : value

const argumentValue = (value: Argument['value']): Value =>
  typeof value === 'object' && 'list' in value ? arrayBytes(value.list) : value

/** The arguments, and the FROM items that the arguments need. */
function argumentsSql(writer: StatementWriter, args: CallArguments): { list: string; from: string | undefined } {
  switch (args.kind) {
    case 'values': {
      const list = args.list.map(
        ({ parameter: { name, castType, variadic }, value }) =>
          `${variadic ? 'VARIADIC ' : ''}${quoteIdentifier(name)} := ${writer.value(argumentValue(value))}::${castType}`,
      )
      return { list: list.join(', '), from: undefined }
    }
    case 'unnamed':
      return {
        list: `${writer.value(unnamedValue(args.value, args.type))}::${args.type}`,
        from: undefined,
      }
    case 'json': {
      if (args.parameters.length === 0) return { list: '', from: undefined }
      const columns = args.parameters.map(({ parameter, key }) => `${quoteIdentifier(key)} ${parameter.castType}`)
      const list = args.parameters.map(
        ({ parameter: { name, variadic }, key }) =>
          `${variadic ? 'VARIADIC ' : ''}${quoteIdentifier(name)} := rst_arguments.${quoteIdentifier(key)}`,
      )
      const json = `${writer.value(args.json)}::json`
      const from = args.isArray
        ? `(SELECT * FROM json_to_recordset(${json}) AS rst_record(${columns.join(', ')}) LIMIT 1) AS rst_arguments`
        : `json_to_record(${json}) AS rst_arguments(${columns.join(', ')})`
      return { list: list.join(', '), from }
    }
  }
}

export const isScalar = ({ routine }: CallPlan): boolean => routine.returns.kind === 'scalar'

/** The rows that the function returns. For a scalar, there is one column `pgrst_scalar`. */
export function callSql(writer: StatementWriter, plan: CallPlan): string {
  const { list, from } = argumentsSql(writer, plan.arguments)
  const call = `${qualified(plan.routine)}(${list})`
  if (isScalar(plan)) return `SELECT ${call} AS pgrst_scalar${from === undefined ? '' : ` FROM ${from}`}`
  return from === undefined
    ? `SELECT rst_call.* FROM ${call} AS rst_call`
    : `SELECT rst_call.* FROM ${from}, LATERAL ${call} AS rst_call`
}
