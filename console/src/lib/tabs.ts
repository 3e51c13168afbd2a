/** The tabs of a database, in display order. Each has a route in `router.tsx` and a text in `texts.database.tab`. */
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
