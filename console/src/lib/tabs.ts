/** The tabs of a database, in their order. Each is a route of `router.tsx` and a text of `texts.database.tab`. */
export const databaseTabs = [
  'connect',
  'branches',
  'backups',
  'access',
  'services',
  'sql',
  'tables',
  'logs',
  'metrics',
  'queries',
  'tasks',
  'settings',
] as const
type DatabaseTab = (typeof databaseTabs)[number]

/** The tabs of a branch. */
export const branchTabs = [
  'connect',
  'services',
  'sql',
  'tables',
  'logs',
  'metrics',
  'queries',
] as const satisfies DatabaseTab[]
export type BranchTab = (typeof branchTabs)[number]
