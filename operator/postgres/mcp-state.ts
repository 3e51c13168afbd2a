/**
 * SQL for the database `espalier`, in which the service `mcp` stores its conversations. Pure. Only the role `mcp_state`
 * may connect to it. The database's comment names its owner. So a copy of another owner's database is dropped, and the
 * database is kept after an in-place restore.
 *
 * If a user created a role or database with one of these names, the operator does not change it, and creates nothing
 * beside it.
 */
import { escapeIdentifier, escapeLiteral } from 'pg'
import { mcpStateDatabase, mcpStateRole } from './configuration.ts'
import { comment, hasRecord, loginAttributes, parseRecord, recordText, watched } from './roles.ts'
import type { McpStateFacts } from './state.ts'

export type DesiredMcpState = {
  /** The id of the database or branch. */
  owner: string
  /** Whether the service is requested. If not, the database is dropped and the role locked. */
  isRequested: boolean
  /** Undefined until the password is created. `passwordVersion`: the uid of the password's Secret. */
  login: { password: string; passwordVersion: string } | undefined
}

/** `taken`: which of the two a user created. */
export type McpStateObservation = { kind: 'foreign'; taken: 'role' | 'database' } | { kind: 'ours'; inOrder: boolean }

const role = escapeIdentifier(mcpStateRole)
const database = escapeIdentifier(mcpStateDatabase)
const attributesText =
  "LOGIN NOSUPERUSER NOINHERIT NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 VALID UNTIL 'infinity'"

/** False if a user created the role. */
export const isOwnRole = ({ role }: McpStateFacts): boolean => hasRecord(role?.comment) && role?.hasMembers === false

/**
 * A database without a comment is the operator's only if its connection limit is set: an operator died after it had
 * created the database.
 */
const isOwnDatabase = ({ database }: McpStateFacts): boolean =>
  database?.isPlatforms === true && (hasRecord(database.comment) || (database.isLimited && database.comment === null))

/** Which of the two a user created. */
export function takenName(facts: McpStateFacts): 'role' | 'database' | undefined {
  if (facts.database !== null && !isOwnDatabase(facts)) return 'database'
  return facts.role !== null && !isOwnRole(facts) ? 'role' : undefined
}

/** `owner`: the owner of the conversations. `role`: the oid of the role for which the schema was created. */
const databaseComment = ({ owner }: DesiredMcpState, { role }: McpStateFacts): string =>
  recordText({ owner, role: role?.oid ?? '' })

/** Whether the operator's database has another owner's conversations, or those of a service that is not requested. */
export function isToDrop(facts: McpStateFacts, { owner, isRequested }: DesiredMcpState): boolean {
  if (facts.database === null || !isOwnDatabase(facts)) return false
  const { comment } = facts.database
  return !isRequested || (comment !== null && parseRecord(comment).owner !== owner)
}

/** Drops the database and ends its sessions. Cannot run in a transaction. */
export const dropDatabase = `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`

/** Until it is complete, only a superuser may connect to it. Cannot run in a transaction. */
export const createDatabase = `CREATE DATABASE ${database} TEMPLATE template0 CONNECTION LIMIT 0`

const canLogIn = ({ role }: McpStateFacts): boolean => role !== null && (role.login || role.verifier !== null)

/** Whether the role can log in although the service is not requested. */
const remainsOpen = (facts: McpStateFacts): boolean => isOwnRole(facts) && canLogIn(facts)

/** Whether no login has a password of the source database, or reads its conversations. */
export function isStateClosedFor(facts: McpStateFacts, wanted: DesiredMcpState | undefined): boolean {
  if (wanted === undefined) return facts.database === null || !isOwnDatabase(facts)
  if (isToDrop(facts, wanted)) return false
  return !remainsOpen(facts) || parseRecord(facts.role?.comment).credentials === wanted.login?.passwordVersion
}

/**
 * A session from before the new password could replace that password. A user may have created the role with the
 * operator's comment.
 */
const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${escapeLiteral(mcpStateRole)}`

/** Statements for one transaction in any database. `verifier`: of the password, if the password must change. */
export function roleStatements(facts: McpStateFacts, wanted: DesiredMcpState, verifier?: string): string[] {
  const { role: present } = facts
  if (present !== null && !isOwnRole(facts)) return []
  const isLocked = !wanted.isRequested || (wanted.login === undefined && isForeignCredential(facts, wanted))
  // Keeps the comment, because it shows that the operator created the role.
  if (isLocked) return remainsOpen(facts) ? [`ALTER ROLE ${role} NOLOGIN PASSWORD NULL`, comment(mcpStateRole, {})] : []
  if (wanted.login === undefined) return []
  const isRight = present !== null && watched.every(key => present[key] === loginAttributes[key])
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const verb = present === null ? 'CREATE' : 'ALTER'
  return [
    ...(isRight && verifier === undefined ? [] : [`${verb} ROLE ${role} ${attributesText}${password}`]),
    ...(present === null || verifier === undefined ? [] : [`ALTER ROLE ${role} RESET ALL`, endSessions]),
    ...(parseRecord(present?.comment).credentials === wanted.login.passwordVersion
      ? []
      : [comment(mcpStateRole, { credentials: wanted.login.passwordVersion })]),
  ]
}

/** The role has a password of the source database. */
const isForeignCredential = ({ database }: McpStateFacts, { owner }: DesiredMcpState): boolean =>
  database === null || parseRecord(database.comment).owner !== owner

/** Whether the database is in the state that `schemaStatements` produce. */
const isFinished = (facts: McpStateFacts, wanted: DesiredMcpState): boolean =>
  facts.database !== null &&
  facts.database.comment === databaseComment(wanted, facts) &&
  !facts.database.isOpen &&
  !facts.database.isLimited &&
  facts.database.enters

/** Statements for one transaction inside the database. The last one writes its comment. */
export const schemaStatements = (facts: McpStateFacts, wanted: DesiredMcpState): string[] =>
  isFinished(facts, wanted)
    ? []
    : [
        `REVOKE ALL ON DATABASE ${database} FROM PUBLIC`,
        `GRANT CONNECT ON DATABASE ${database} TO ${role}`,
        `ALTER SCHEMA public OWNER TO ${role}`,
        'REVOKE ALL ON SCHEMA public FROM PUBLIC',
        `ALTER DATABASE ${database} CONNECTION LIMIT -1`,
        `COMMENT ON DATABASE ${database} IS ${escapeLiteral(databaseComment(wanted, facts))}`,
      ]

/**
 * `hasPassword`: the role has the desired password. Returns undefined if the service is not requested, or its password
 * is not created yet.
 */
export function mcpStateObservation(
  facts: McpStateFacts,
  wanted: DesiredMcpState,
  hasPassword: boolean,
): McpStateObservation | undefined {
  if (!wanted.isRequested || wanted.login === undefined) return undefined
  const taken = takenName(facts)
  if (taken !== undefined) return { kind: 'foreign', taken }
  const isDone = roleStatements(facts, wanted).length === 0 && isFinished(facts, wanted)
  return { kind: 'ours', inOrder: isDone && hasPassword }
}

/** Whether something remains of a service that is not requested, or of the source database. */
export const stateRemains = (facts: McpStateFacts, wanted: DesiredMcpState): boolean =>
  isToDrop(facts, wanted) || (wanted.login === undefined && roleStatements(facts, wanted).length > 0)
