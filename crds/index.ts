/** The resource model: every kind of Espalier. */
import { backup } from './backup.ts'
import { branch } from './branch.ts'
import { managedDatabase } from './managed-database.ts'
import { region } from './region.ts'
import { restore } from './restore.ts'
import { size } from './size.ts'
import { task } from './task.ts'
import { tenant } from './tenant.ts'

export const declarations = {
  ManagedDatabase: managedDatabase,
  Branch: branch,
  Backup: backup,
  Restore: restore,
  Task: task,
  Size: size,
  Region: region,
  Tenant: tenant,
} as const

export * from './backup.ts'
export * from './branch.ts'
export * from './branch-move.ts'
export * from './branch-slots.ts'
export * from './deleted-database.ts'
export * from './fields.ts'
export * from './import.ts'
export * from './instance.ts'
export * from './kind.ts'
export * from './managed-database.ts'
export * from './metadata.ts'
export * from './names.ts'
export * from './operation.ts'
export * from './recovery-window.ts'
export * from './region.ts'
export * from './restore.ts'
export * from './service-rules.ts'
export * from './services.ts'
export * from './size.ts'
export * from './task.ts'
export * from './task-request.ts'
export * from './tenant.ts'
