/** A function call as the source of rows. */
import type { CallArguments, Plan } from '../plan/types.ts'
import { arrayLiteral, identifier, qualified, type StatementWriter } from './statement.ts'

type CallPlan = Extract<Plan, { kind: 'call' }>

/** Bytes as Postgres reads them from text (manual section 8.4.1). */
const hexadecimal = (value: Buffer | string): string => `\\x${Buffer.from(value).toString('hex')}`

/** The arguments, and what has to stand in FROM for them. */
function argumentsSql(writer: StatementWriter, given: CallArguments): { list: string; from: string | undefined } {
  switch (given.kind) {
    case 'values': {
      const list = given.list.map(({ parameter: { name, castType, variadic }, value }) => {
        const text = typeof value === 'string' || Buffer.isBuffer(value) ? value : arrayLiteral(value)
        return `${variadic ? 'VARIADIC ' : ''}${identifier(name)} := ${writer.value(text)}::${castType}`
      })
      return { list: list.join(', '), from: undefined }
    }
    case 'unnamed':
      return {
        list: `${writer.value(given.type === 'bytea' ? hexadecimal(given.value) : given.value)}::${given.type}`,
        from: undefined,
      }
    case 'json': {
      if (given.parameters.length === 0) return { list: '', from: undefined }
      const columns = given.parameters.map(({ name, castType }) => `${identifier(name)} ${castType}`)
      const list = given.parameters.map(
        ({ name, variadic }) =>
          `${variadic ? 'VARIADIC ' : ''}${identifier(name)} := rst_arguments.${identifier(name)}`,
      )
      const from = `json_to_record(${writer.value(given.json)}::json) AS rst_arguments(${columns.join(', ')})`
      return { list: list.join(', '), from }
    }
  }
}

export const isScalar = ({ routine }: CallPlan): boolean => routine.returns.kind === 'scalar'

/** The rows that the function returns; of a scalar, one column `rst_scalar`. */
export function callSql(writer: StatementWriter, plan: CallPlan): string {
  const { list, from } = argumentsSql(writer, plan.arguments)
  const call = `${qualified(plan.routine)}(${list})`
  if (isScalar(plan)) return `SELECT ${call} AS rst_scalar${from === undefined ? '' : ` FROM ${from}`}`
  return from === undefined
    ? `SELECT rst_call.* FROM ${call} AS rst_call`
    : `SELECT rst_call.* FROM ${from}, LATERAL ${call} AS rst_call`
}
