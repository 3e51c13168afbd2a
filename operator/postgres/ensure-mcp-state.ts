/**
 * Creates the role and the database in which the service `mcp` stores its conversations. Drops those of another owner.
 */
import { mcpStateDatabase } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import {
  createDatabase,
  type DesiredMcpState,
  dropDatabase,
  isToDrop,
  type McpStateObservation,
  mcpStateObservation,
  roleStatements,
  schemaStatements,
  stateRemains,
  takenName,
} from './mcp-state.ts'
import type { PasswordChecks } from './password-checks.ts'
import { parseRecord } from './roles.ts'
import { fitsVerifier, scramVerifier } from './scram.ts'
import type { Sessions } from './sessions.ts'
import { type McpStateFacts, readState, type ServerState } from './state.ts'

/** Both wait for the disk. */
const databaseTimeoutMs = 30_000

/** The caller must hold the lock on roles. Drops first, because a copy can be opened after that. */
export async function ensureMcpState(
  { connect }: Sessions,
  connection: Connection,
  target: PostgresTarget,
  state: ServerState,
  wanted: DesiredMcpState | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (wanted === undefined) return
  let { mcpState: facts } = state
  const read = async () => (await readState(connection)).mcpState
  // Before the role gets this owner's password version, another owner's database must be dropped.
  if (isToDrop(facts, wanted)) {
    await connection.alone(dropDatabase, databaseTimeoutMs)
    facts = await read()
  }
  const isCreated = wanted.isRequested && wanted.login !== undefined
  if (isCreated && takenName(facts) !== undefined) return
  await connection.transaction(roleStatements(facts, wanted, await verifierToSet(facts, wanted)))
  if (!isCreated) return
  if (facts.database === null) await connection.alone(createDatabase, databaseTimeoutMs)
  facts = await read()
  const statements = schemaStatements(facts, wanted)
  if (statements.length > 0)
    await connect(target, mcpStateDatabase, signal, inside => inside.transaction(statements), state.version)
}

async function verifierToSet({ role }: McpStateFacts, { login }: DesiredMcpState): Promise<string | undefined> {
  if (login === undefined) return undefined
  const isCurrent = parseRecord(role?.comment).credentials === login.passwordVersion
  if (isCurrent && (await fitsVerifier(login.password, role?.verifier ?? null))) return undefined
  return scramVerifier(login.password)
}

/** The probe's result about role and database. `remains`: something must still be dropped. */
export async function observeMcpState(
  { mcpState: facts }: ServerState,
  wanted: DesiredMcpState | undefined,
  passwordChecks: PasswordChecks,
  signal: AbortSignal,
): Promise<{ mcpState: McpStateObservation | undefined; remains: boolean }> {
  if (wanted === undefined) return { mcpState: undefined, remains: false }
  const remains = stateRemains(facts, wanted)
  const verifier = facts.role?.verifier ?? null
  const comparison =
    wanted.login === undefined || verifier === null
      ? 'differs'
      : await passwordChecks.check(wanted.login.password, verifier, signal)
  return { mcpState: mcpStateObservation(facts, wanted, comparison !== 'differs'), remains }
}
