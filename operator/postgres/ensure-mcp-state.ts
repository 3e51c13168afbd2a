/** Creates the role and the database in which the service `mcp` keeps its conversations, or drops what is another owner's. */
import { mcpStateDatabase } from './configuration.ts'
import type { Connection, PostgresTarget } from './connection.ts'
import {
  createDatabase,
  type DesiredMcpState,
  dropDatabase,
  isStateLeft,
  isToDrop,
  type McpStateObservation,
  mcpStateObservation,
  roleStatements,
  schemaStatements,
  takenName,
} from './mcp-state.ts'
import { parseMark } from './roles.ts'
import { fitsVerifier, scramVerifier } from './scram.ts'
import type { Sessions } from './sessions.ts'
import { type McpStateFacts, readState, type ServerState } from './state.ts'
import type { Verdicts } from './verdicts.ts'

/** Both wait for the disk. */
const databaseTimeoutMs = 30_000

/** With the lock on roles. Drops first: on a copy, that is all that must be done before it is opened. */
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
  // Before the role is given the mark of this owner, the database of another must be gone.
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
  const isMarked = parseMark(role?.comment).credentials === login.mark
  if (isMarked && (await fitsVerifier(login.password, role?.verifier ?? null))) return undefined
  return scramVerifier(login.password)
}

/** What a probe reports of it. `isLeft`: something is left that is to be dropped. */
export async function observeMcpState(
  { mcpState: facts }: ServerState,
  wanted: DesiredMcpState | undefined,
  verdicts: Verdicts,
  signal: AbortSignal,
): Promise<{ mcpState: McpStateObservation | undefined; isLeft: boolean }> {
  if (wanted === undefined) return { mcpState: undefined, isLeft: false }
  const isLeft = isStateLeft(facts, wanted)
  const verifier = facts.role?.verifier ?? null
  const verdict =
    wanted.login === undefined || verifier === null
      ? 'differs'
      : await verdicts.judge(wanted.login.password, verifier, signal)
  return { mcpState: mcpStateObservation(facts, wanted, verdict !== 'differs'), isLeft }
}
