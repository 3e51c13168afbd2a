/**
 * Decides how a plan runs for the request's role, preferences and configuration. This includes the transaction's begin
 * and end, whether the result can be streamed, and whether the plan can share a connection. Pure.
 */
import type { Preferences } from '../parse/preferences.ts'
import type { Plan } from '../plan/types.ts'
import type { Rendered } from '../sql/index.ts'
import type { Exchange } from './exchange.ts'
import type { State } from './state.ts'
import type { TransactionMode } from './transaction.ts'

/** The transaction end that the client requested, if the client may choose it. */
export const chosenEnd = ({ configuration }: State, { tx }: Pick<Preferences, 'tx'>): Preferences['tx'] =>
  configuration.dbTxEnd.endsWith('allow-override') ? tx : undefined

/** The requested transaction end, or else the configured one. */
export const endOf = ({ configuration }: State, chosen: Preferences['tx']): 'commit' | 'rollback' =>
  chosen ?? (configuration.dbTxEnd.startsWith('rollback') ? 'rollback' : 'commit')

export const isReadOnly = (plan: Plan): boolean => plan.kind === 'read' || (plan.kind === 'call' && plan.readOnly)

/** The isolation level of the called function, or else the role's. */
export function isolationLevelOf({ state, session }: Exchange, plan: Plan): string | undefined {
  const routineLevel = plan.kind === 'call' ? plan.routine.isolationLevel : null
  return routineLevel ?? state.roleSettings.get(session.role)?.isolationLevel
}

export function transactionMode(exchange: Exchange, plan: Plan, chosen: Preferences['tx']): TransactionMode {
  const end = endOf(exchange.state, chosen)
  return {
    readOnly: isReadOnly(plan),
    isolationLevel: isolationLevelOf(exchange, plan),
    end: end === 'commit' && decides(plan) ? 'decide' : end,
  }
}

/** Whether the result can require a rollback. */
const decides = (plan: Plan): boolean =>
  plan.limits?.cost !== undefined || (plan.limits !== undefined && writes(plan)) || decidesByForm(plan)

const writes = (plan: Plan): boolean => plan.kind === 'write' || (plan.kind === 'call' && !plan.readOnly)

const decidesByForm = (plan: Plan): boolean =>
  plan.body.explain === undefined &&
  ((plan.kind === 'write' &&
    (plan.body.singular || plan.maximumAffected !== undefined || (plan.write.kind === 'insert' && plan.write.isPut))) ||
    (plan.kind === 'call' && !plan.readOnly && (plan.body.singular || plan.maximumAffected !== undefined)))

/**
 * Whether the head is final when it is sent: written rows, their count and the transaction's end can no longer change
 * it.
 */
export const canStream = (plan: Plan, { end, isolationLevel }: TransactionMode): boolean =>
  plan.kind !== 'write' &&
  plan.limits?.cost === undefined &&
  !plan.headersOnly &&
  !plan.body.singular &&
  plan.body.explain === undefined &&
  (plan.kind === 'read' || (plan.readOnly && plan.maximumAffected === undefined)) &&
  end !== 'decide' &&
  isolationLevel !== 'serializable'

/** Whether the plan may run twice and leaves nothing on its connection that could affect other runs. */
export const canShare = (plan: Plan, rendered: Rendered, { end, isolationLevel }: TransactionMode): boolean =>
  (plan.kind === 'read' || (plan.kind === 'call' && plan.readOnly && plan.routine.volatility !== 'volatile')) &&
  plan.limits?.cost === undefined &&
  !rendered.isExplain &&
  rendered.rowBody === undefined &&
  end === 'commit' &&
  isolationLevel === undefined
