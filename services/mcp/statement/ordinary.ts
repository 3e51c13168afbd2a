/**
 * Definitions that only add something, or can be undone. They run without a confirmation. All other definitions delete,
 * replace or grant something, or contain code that may do so.
 */
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

/** `node`: the root of the parse tree. */
export function isOrdinary(node: TreeNode): boolean {
  const [[kind, content] = ['', undefined]] = Object.entries(node)
  if (!isNode(content)) return false
  switch (kind) {
    case 'AlterTableStmt':
      return onlyAdds(content.cmds)
    case 'ViewStmt':
      return content.replace !== true
    case 'CreateSchemaStmt':
      return content.schemaElts === undefined
    default:
      return adding.has(kind)
  }
}
