/** The operations that the sweep disturbs. */
import { authorityScenarios } from './authority.ts'
import { backupScenarios } from './backups.ts'
import { branchScenarios } from './branches.ts'
import { databaseScenarios } from './databases.ts'
import { importScenarios } from './imports.ts'
import type { Scenario } from './scenario.ts'
import { serviceScenarios } from './services.ts'
import { volumeScenarios } from './volumes.ts'

export const scenarios: Scenario[] = [
  ...databaseScenarios,
  ...volumeScenarios,
  ...authorityScenarios,
  ...backupScenarios,
  ...branchScenarios,
  ...serviceScenarios,
  ...importScenarios,
]
