/**
 * Checks the write privilege in Postgres before the service reads a large body. Postgres plans the request's statement
 * without its body, and does not run it. Postgres would refuse the complete statement with the same error.
 */

import { DatabaseError } from '../../../wire/errors.ts'
import type { Step } from '../../postgres/run.ts'
import { transact } from '../../postgres/transact.ts'
import type { Plan } from '../plan/types.ts'
import { render } from '../sql/index.ts'
import { type Exchange, sessionFacts } from './exchange.ts'
import { transactionSteps } from './transaction.ts'

const noPrivilege = '42501'

const subjectOf = (plan: Plan): string => {
  switch (plan.kind) {
    case 'call':
      return `call ${plan.routine.schema}.${plan.routine.name}`
    case 'write':
      return `${plan.write.kind} ${plan.relation.schema}.${plan.relation.name}`
    case 'read':
      return `read ${plan.read.relation.schema}.${plan.read.relation.name}`
  }
}

/** The plan's statement, which Postgres plans and does not run. */
function explainStep(plan: Plan): Step {
  const { write, main } = render({ ...plan, body: { ...plan.body, explain: undefined } })
  const { text, values } = write ?? main
  return { text: `EXPLAIN ${text}`, values }
}

/** Whether the role may update any column. A plan cannot show this. */
function anyColumnStep(plan: Plan): Step | undefined {
  if (plan.kind !== 'write' || plan.write.kind !== 'update') return undefined
  const { schema, name } = plan.relation
  return {
    text: `SELECT has_any_column_privilege(format('%I.%I', $1::text, $2::text), 'UPDATE')::int`,
    values: [schema, name],
  }
}

/**
 * Postgres's refusal of a plan. Undefined if there is no refusal, or if there is another error: the request itself will
 * get that error.
 */
async function refusalOf(exchange: Exchange, schema: string, plan: Plan): Promise<DatabaseError | undefined> {
  const { pool, signal } = exchange
  const facts = sessionFacts(exchange, schema)
  const { before, after } = transactionSteps(facts, { readOnly: true, isolationLevel: undefined, end: 'rollback' })
  const run = (step: Step) =>
    transact(pool, signal, async connection => {
      const results = await connection.run([...before, step, ...after], false)
      return results[before.length]?.[0]?.[0]?.toString()
    })
  try {
    await run(explainStep(plan))
    return undefined
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    if (error.sqlState !== noPrivilege) return undefined
    const anyColumn = anyColumnStep(plan)
    return anyColumn !== undefined && (await run(anyColumn)) === '1' ? undefined : error
  }
}

/**
 * Returns if the client may run one of the plans.
 * @throws DatabaseError if Postgres refuses all plans; ConnectionFailure, AcquisitionTimeout
 */
export async function admit(exchange: Exchange, schema: string, plans: readonly Plan[]): Promise<void> {
  const { session, state } = exchange
  let refusal: DatabaseError | undefined
  for (const plan of plans) {
    const key = `${session.role} ${subjectOf(plan)}`
    if (state.admissions.get(key) === true) return
    const found = await refusalOf(exchange, schema, plan)
    if (found === undefined) {
      state.admissions.set(key, true)
      return
    }
    refusal ??= found
  }
  if (refusal !== undefined) throw refusal
}
