/** How the transaction of a request is begun and ended, by its plan, its role, its client and the configuration. Pure. */
import type { Preferences } from '../parse/preferences.ts'
import type { Plan } from '../plan/types.ts'
import type { Exchange } from './exchange.ts'
import { decides } from './execute.ts'
import type { State } from './state.ts'
import type { TransactionMode } from './transaction.ts'

/** The end of the transaction that the client chose, where it may choose. */
export const chosenEnd = ({ configuration }: State, { tx }: Pick<Preferences, 'tx'>): Preferences['tx'] =>
  configuration.dbTxEnd.endsWith('allow-override') ? tx : undefined

/** As chosen, or else as it is configured. */
export const endOf = ({ configuration }: State, chosen: Preferences['tx']): 'commit' | 'rollback' =>
  chosen ?? (configuration.dbTxEnd.startsWith('rollback') ? 'rollback' : 'commit')

export const isReadOnly = (plan: Plan): boolean => plan.kind === 'read' || (plan.kind === 'call' && plan.readOnly)

/** That of the function that is called, or else that of the role. */
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
