/** The class of a statement, by the root node of its parse tree. Statements that are missing here are never allowed. */
import type { TreeNode } from './parser.ts'

/**
 * `select`: SELECT, VALUES, TABLE. `show`: settings. `explain`: of a `select`. `write`: INSERT, UPDATE, DELETE, MERGE,
 * CALL. `definition`: DDL, TRUNCATE, DO and other changes beyond rows. `other`: everything that cannot run as one call
 * in its own transaction.
 */
export type StatementClass = 'select' | 'show' | 'explain' | 'write' | 'definition' | 'other'

/**
 * Statements that are never allowed: they cannot run in a transaction, have effects in the session after it, access
 * files, or change privileges.
 */
const others: { readonly [kind: string]: string } = {
  TransactionStmt: 'transaction control',
  VariableSetStmt: 'SET',
  DiscardStmt: 'DISCARD',
  PrepareStmt: 'PREPARE',
  ExecuteStmt: 'EXECUTE',
  DeallocateStmt: 'DEALLOCATE',
  DeclareCursorStmt: 'DECLARE CURSOR',
  FetchStmt: 'FETCH',
  ClosePortalStmt: 'CLOSE',
  ListenStmt: 'LISTEN',
  UnlistenStmt: 'UNLISTEN',
  NotifyStmt: 'NOTIFY',
  LockStmt: 'LOCK',
  LoadStmt: 'LOAD',
  CopyStmt: 'COPY',
  CheckPointStmt: 'CHECKPOINT',
  VacuumStmt: 'VACUUM and ANALYZE',
  ClusterStmt: 'CLUSTER',
  ReindexStmt: 'REINDEX',
  ConstraintsSetStmt: 'SET CONSTRAINTS',
  AlterSystemStmt: 'ALTER SYSTEM',
  CreatedbStmt: 'CREATE DATABASE',
  DropdbStmt: 'DROP DATABASE',
  AlterDatabaseStmt: 'ALTER DATABASE',
  AlterDatabaseSetStmt: 'ALTER DATABASE',
  CreateRoleStmt: 'CREATE ROLE',
  AlterRoleStmt: 'ALTER ROLE',
  AlterRoleSetStmt: 'ALTER ROLE',
  DropRoleStmt: 'DROP ROLE',
  GrantRoleStmt: 'GRANT of a role',
  DropOwnedStmt: 'DROP OWNED',
  ReassignOwnedStmt: 'REASSIGN OWNED',
}

/** Statements that building a database requires. All of them except ordinary ones need a confirmation. */
const definitions: { readonly [kind: string]: string } = {
  CreateStmt: 'CREATE TABLE',
  CreateTableAsStmt: 'CREATE TABLE AS',
  ViewStmt: 'CREATE VIEW',
  IndexStmt: 'CREATE INDEX',
  CreateSeqStmt: 'CREATE SEQUENCE',
  AlterSeqStmt: 'ALTER SEQUENCE',
  CreateSchemaStmt: 'CREATE SCHEMA',
  CreateDomainStmt: 'CREATE DOMAIN',
  AlterDomainStmt: 'ALTER DOMAIN',
  CreateEnumStmt: 'CREATE TYPE',
  AlterEnumStmt: 'ALTER TYPE',
  CompositeTypeStmt: 'CREATE TYPE',
  CreateRangeStmt: 'CREATE TYPE',
  AlterTypeStmt: 'ALTER TYPE',
  CreateFunctionStmt: 'CREATE FUNCTION',
  AlterFunctionStmt: 'ALTER FUNCTION',
  CreateTrigStmt: 'CREATE TRIGGER',
  RuleStmt: 'CREATE RULE',
  CreatePolicyStmt: 'CREATE POLICY',
  AlterPolicyStmt: 'ALTER POLICY',
  CreateStatsStmt: 'CREATE STATISTICS',
  AlterStatsStmt: 'ALTER STATISTICS',
  CreateExtensionStmt: 'CREATE EXTENSION',
  AlterExtensionStmt: 'ALTER EXTENSION',
  AlterTableStmt: 'ALTER TABLE',
  RenameStmt: 'RENAME',
  AlterObjectSchemaStmt: 'SET SCHEMA',
  AlterOwnerStmt: 'OWNER TO',
  AlterDefaultPrivilegesStmt: 'ALTER DEFAULT PRIVILEGES',
  GrantStmt: 'GRANT or REVOKE',
  CommentStmt: 'COMMENT',
  DefineStmt: 'CREATE',
  DropStmt: 'DROP',
  TruncateStmt: 'TRUNCATE',
  RefreshMatViewStmt: 'REFRESH MATERIALIZED VIEW',
  DoStmt: 'DO',
}

const writes: { readonly [kind: string]: string } = {
  InsertStmt: 'INSERT',
  UpdateStmt: 'UPDATE',
  DeleteStmt: 'DELETE',
  MergeStmt: 'MERGE',
  CallStmt: 'CALL',
}

const tagOf = (list: { readonly [kind: string]: string }, kind: string): string | undefined =>
  Object.hasOwn(list, kind) ? list[kind] : undefined

type Classified = { readonly class: StatementClass; readonly tag: string }

/** The statement inside an EXPLAIN. */
function explained(node: unknown): Classified {
  const query = typeof node === 'object' && node !== null && 'query' in node ? node.query : undefined
  const isSelect = typeof query === 'object' && query !== null && 'SelectStmt' in query
  return isSelect ? { class: 'explain', tag: 'EXPLAIN' } : { class: 'other', tag: 'EXPLAIN of anything but a SELECT' }
}

export function classOf(node: TreeNode): Classified {
  const [kind = ''] = Object.keys(node)
  if (kind === 'SelectStmt') return { class: 'select', tag: 'SELECT' }
  if (kind === 'VariableShowStmt') return { class: 'show', tag: 'SHOW' }
  if (kind === 'ExplainStmt') return explained(node[kind])
  const write = tagOf(writes, kind)
  if (write !== undefined) return { class: 'write', tag: write }
  const definition = tagOf(definitions, kind)
  if (definition !== undefined) return { class: 'definition', tag: definition }
  return { class: 'other', tag: tagOf(others, kind) ?? kind.replace(/Stmt$/, '') }
}
