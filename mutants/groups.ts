/** What is mutated, and by which tests: those that cover it and take no real Postgres, from fast to slow. */
type Group = {
  name: string
  files: string[]
  tests: string[]
  /** How many cases a property is tried with, at most; 30 without. */
  runs?: number
  /** How long a test may take, in ms; 3,000 without. A mutant that makes an operation hang costs as much. */
  testLimit?: number
}

const lifecycle = ['lifecycle', 'rollout', 'stops', 'leftovers', 'unmade', 'lost-node', 'adoption', 'healing', 'rescue']
const ofOperator = [
  'operator/workload/plan/{rescue,teardown,volume,growth}.test.ts',
  'operator/workload/plan/*.test.ts',
  'operator/managed-database/plan/*.test.ts',
  ...lifecycle.map(name => `operator/managed-database/${name}.test.ts`),
]

export const groups: Group[] = [
  { name: 'workload-plan', files: ['operator/workload/plan/*.ts'], tests: ofOperator },
  { name: 'database-plan', files: ['operator/managed-database/plan/*.ts'], tests: ofOperator },
  { name: 'routes', files: ['routes/route.ts'], tests: ['routes/route.test.ts'] },
  { name: 'volume', files: ['instance/volume.ts'], tests: ['instance/volume.test.ts'] },
  {
    name: 'execute',
    files: ['operator/workload/execute.ts'],
    tests: ['operator/workload/execute.test.ts', ...ofOperator],
  },
  {
    name: 'parse',
    testLimit: 20_000,
    files: ['services/rest/parse/*.ts'],
    // Without fuzz.test.ts, which needs thousands of cases to get far.
    tests: ['services/rest/parse/{request,preferences,range,media,query,filter,select,json-scanner,payload}.test.ts'],
  },
  {
    name: 'sql',
    runs: 300,
    files: ['services/rest/sql/*.ts'],
    tests: ['services/rest/sql/*.test.ts'],
  },
  { name: 'rest-plan', files: ['services/rest/plan/*.ts'], tests: ['services/rest/plan/*.test.ts'] },
  { name: 'crds', files: ['crds/*.ts', '!crds/generate.ts'], tests: ['crds/*.test.ts'] },
]
