/** Which definitions only add something, or can be taken back: they run without a confirmation. What is not named here deletes, replaces, gives rights away, or holds code that may do so. */
import type { TreeNode } from './parser.ts'

const adding = new Set(
  `CreateStmt CreateTableAsStmt IndexStmt CreateSeqStmt CreateDomainStmt CreateEnumStmt AlterEnumStmt CompositeTypeStmt CreateRangeStmt CreateStatsStmt AlterStatsStmt
  CommentStmt RenameStmt RefreshMatViewStmt`.split(/\s+/),
)

const addingToTables = new Set(
  `AT_AddColumn AT_AddConstraint AT_AddIndex AT_AddIndexConstraint AT_ValidateConstraint AT_ColumnDefault AT_CookedColumnDefault AT_SetNotNull AT_DropNotNull AT_SetStatistics AT_SetOptions
  AT_SetStorage AT_SetRelOptions AT_ResetRelOptions AT_AttachPartition AT_AddIdentity AT_SetIdentity AT_EnableRowSecurity AT_ForceRowSecurity AT_ReplicaIdentity`.split(
    /\s+/,
  ),
)

const isNode = (value: unknown): value is TreeNode =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function onlyAdds(commands: unknown): boolean {
  if (!Array.isArray(commands)) return false
  return commands.every(item => {
    const command = isNode(item) && isNode(item.AlterTableCmd) ? item.AlterTableCmd : {}
    return typeof command.subtype === 'string' && addingToTables.has(command.subtype)
  })
}

/** `node`: the root of a statement's tree. */
export function isOrdinary(node: TreeNode): boolean {
  const [[kind, held] = ['', undefined]] = Object.entries(node)
  if (!isNode(held)) return false
  switch (kind) {
    case 'AlterTableStmt':
      return onlyAdds(held.cmds)
    case 'ViewStmt':
      return held.replace !== true
    case 'CreateSchemaStmt':
      return held.schemaElts === undefined
    default:
      return adding.has(kind)
  }
}
