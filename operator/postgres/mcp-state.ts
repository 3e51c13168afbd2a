/**
 * Where the service `mcp` keeps its conversations: the database `espalier`, which the role `mcp_state` alone may connect to, as SQL; pure. The
 * comment of the database names whose it is, so that a copy of another owner's is dropped, and that of a restore in place stays.
 *
 * A role or database of these names that a user made stays the user's: nothing of it is changed, and nothing is created beside it.
 */
import { escapeIdentifier, escapeLiteral } from 'pg'
import { mcpStateDatabase, mcpStateRole } from './configuration.ts'
import { comment, isMarked, loginAttributes, markText, parseMark, watched } from './roles.ts'
import type { McpStateFacts } from './state.ts'

export type DesiredMcpState = {
  /** The id of the database or branch. */
  owner: string
  /** Whether the service is requested. Where it is not, the database is dropped and the role locked. */
  isRequested: boolean
  /** Undefined until its password is minted. `mark`: names the password, the uid of the Secret that holds it. */
  login: { password: string; mark: string } | undefined
}

/** `taken`: which of the two a user made. */
export type McpStateObservation = { kind: 'foreign'; taken: 'role' | 'database' } | { kind: 'ours'; inOrder: boolean }

const role = escapeIdentifier(mcpStateRole)
const database = escapeIdentifier(mcpStateDatabase)
const attributesText =
  "LOGIN NOSUPERUSER NOINHERIT NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1 VALID UNTIL 'infinity'"

/** False where a user made the role. */
export const isRoleOurs = ({ role }: McpStateFacts): boolean => isMarked(role?.comment) && role?.hasMembers === false

/** One without a comment is ours while nothing but its limit is set: an operator died after it created it. */
const isDatabaseOurs = ({ database }: McpStateFacts): boolean =>
  database?.isPlatforms === true && (isMarked(database.comment) || (database.isLimited && database.comment === null))

/** Which of the two a user made. */
export function takenName(facts: McpStateFacts): 'role' | 'database' | undefined {
  if (facts.database !== null && !isDatabaseOurs(facts)) return 'database'
  return facts.role !== null && !isRoleOurs(facts) ? 'role' : undefined
}

/** `owner`: whose conversations are in it. `role`: the number of the role for which its schema was made. */
const markOf = ({ owner }: DesiredMcpState, { role }: McpStateFacts): string =>
  markText({ owner, role: role?.oid ?? '' })

/** Whether a database of ours has another owner's conversations, or those of a service that is not requested. */
export function isToDrop(facts: McpStateFacts, { owner, isRequested }: DesiredMcpState): boolean {
  if (facts.database === null || !isDatabaseOurs(facts)) return false
  const { comment } = facts.database
  return !isRequested || (comment !== null && parseMark(comment).owner !== owner)
}

/** Ends the sessions in it. Not for a transaction. */
export const dropDatabase = `DROP DATABASE IF EXISTS ${database} WITH (FORCE)`

/** Only a superuser may connect to it until it is finished. Not for a transaction. */
export const createDatabase = `CREATE DATABASE ${database} TEMPLATE template0 CONNECTION LIMIT 0`

const canLogIn = ({ role }: McpStateFacts): boolean => role !== null && (role.login || role.verifier !== null)

/** Whether it can log in although it is not requested. */
const isLeftOpen = (facts: McpStateFacts): boolean => isRoleOurs(facts) && canLogIn(facts)

/** Whether no login has a password of the database that this one was copied from, or reads its conversations. */
export function isStateClosedFor(facts: McpStateFacts, wanted: DesiredMcpState | undefined): boolean {
  if (wanted === undefined) return facts.database === null || !isDatabaseOurs(facts)
  if (isToDrop(facts, wanted)) return false
  return !isLeftOpen(facts) || parseMark(facts.role?.comment).credentials === wanted.login?.mark
}

/** A session from before a new password could replace that password, and a user may have made the role with our comment. */
const endSessions = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ${escapeLiteral(mcpStateRole)}`

/** Statements for one transaction in any database. `verifier`: of the password, where that is not to stay. */
export function roleStatements(facts: McpStateFacts, wanted: DesiredMcpState, verifier?: string): string[] {
  const { role: present } = facts
  if (present !== null && !isRoleOurs(facts)) return []
  const isLocked = !wanted.isRequested || (wanted.login === undefined && isForeignCredential(facts, wanted))
  // The mark stays, by which it is still ours.
  if (isLocked) return isLeftOpen(facts) ? [`ALTER ROLE ${role} NOLOGIN PASSWORD NULL`, comment(mcpStateRole, {})] : []
  if (wanted.login === undefined) return []
  const isRight = present !== null && watched.every(key => present[key] === loginAttributes[key])
  const password = verifier === undefined ? '' : ` PASSWORD ${escapeLiteral(verifier)}`
  const verb = present === null ? 'CREATE' : 'ALTER'
  return [
    ...(isRight && verifier === undefined ? [] : [`${verb} ROLE ${role} ${attributesText}${password}`]),
    ...(present === null || verifier === undefined ? [] : [`ALTER ROLE ${role} RESET ALL`, endSessions]),
    ...(parseMark(present?.comment).credentials === wanted.login.mark
      ? []
      : [comment(mcpStateRole, { credentials: wanted.login.mark })]),
  ]
}

/** The role has a password of the database that this one was copied from. */
const isForeignCredential = ({ database }: McpStateFacts, { owner }: DesiredMcpState): boolean =>
  database === null || parseMark(database.comment).owner !== owner

/** Whether the database is as `schemaStatements` leave it. */
const isFinished = (facts: McpStateFacts, wanted: DesiredMcpState): boolean =>
  facts.database !== null &&
  facts.database.comment === markOf(wanted, facts) &&
  !facts.database.isOpen &&
  !facts.database.isLimited &&
  facts.database.enters

/** Statements for one transaction inside the database, ending with its mark. */
export const schemaStatements = (facts: McpStateFacts, wanted: DesiredMcpState): string[] =>
  isFinished(facts, wanted)
    ? []
    : [
        `REVOKE ALL ON DATABASE ${database} FROM PUBLIC`,
        `GRANT CONNECT ON DATABASE ${database} TO ${role}`,
        `ALTER SCHEMA public OWNER TO ${role}`,
        'REVOKE ALL ON SCHEMA public FROM PUBLIC',
        `ALTER DATABASE ${database} CONNECTION LIMIT -1`,
        `COMMENT ON DATABASE ${database} IS ${escapeLiteral(markOf(wanted, facts))}`,
      ]

/** `hasPassword`: the password wanted is the role's. Undefined where it is not requested, or its password is not minted. */
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

/** Whether something is left of a service that is not requested, or of the database that this one was copied from. */
export const isStateLeft = (facts: McpStateFacts, wanted: DesiredMcpState): boolean =>
  isToDrop(facts, wanted) || (wanted.login === undefined && roleStatements(facts, wanted).length > 0)
