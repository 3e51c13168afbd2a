/** The mutated files, with the tests that cover them without a real Postgres, from fast to slow. */
type Group = {
  name: string
  files: string[]
  tests: string[]
  /** The maximum number of cases of a property; default 30. */
  runs?: number
  /** Time limit of a test, in ms; default 3,000. A mutant that makes an operation hang takes this long. */
  testLimit?: number
}

/** Tests with tables and properties. Each takes milliseconds. */
const ofPlans = [
  'operator/{workload,endpoint}/plan/*.test.ts',
  'operator/member/**/plan/*.test.ts',
  'operator/managed-database/plan/*.test.ts',
]
const lifecycle = [
  'lifecycle',
  'rollout',
  'stops',
  'leftovers',
  'unprovisioned',
  'lost-node',
  'adoption',
  'healing',
  'rescue',
]
const ofOperations = lifecycle.map(name => `operator/managed-database/${name}.test.ts`)

/** Tests of requests and their SQL statements. */
const ofSql = ['services/rest/sql/{read,write,call,index,statement}.test.ts']

export const groups: Group[] = [
  {
    name: 'workload-plan',
    files: [
      'operator/{workload,endpoint}/plan/*.ts',
      'operator/member/**/plan/*.ts',
      'operator/member/pod/applied-size.ts',
      'operator/endpoint/external-address.ts',
    ],
    tests: ofPlans,
  },
  { name: 'database-plan', files: ['operator/managed-database/plan/*.ts'], tests: ofPlans.toReversed() },
  { name: 'backup-plan', files: ['operator/backup/plan/*.ts'], tests: ['operator/backup/plan/*.test.ts'] },
  {
    name: 'backup-schedule',
    files: ['operator/backup/schedule/{due,retention}.ts'],
    tests: ['operator/backup/schedule/{due,retention}.test.ts'],
  },
  { name: 'branch-plan', files: ['operator/branch/plan/*.ts'], tests: ['operator/branch/plan/*.test.ts'] },
  { name: 'restore-plan', files: ['operator/restore/plan.ts'], tests: ['operator/restore/{record,plan}.test.ts'] },
  { name: 'routes', files: ['routes/route.ts'], tests: ['routes/route.test.ts'] },
  { name: 'volume', files: ['instance/volume.ts'], tests: ['instance/volume.test.ts'] },
  {
    name: 'execute',
    files: [
      'operator/{owner/execute,workload/act}.ts',
      'operator/{children,endpoint,member}/act.ts',
      'operator/member/*/act.ts',
    ],
    tests: ['operator/{owner/execute,workload/act}.test.ts', ...ofPlans, ...ofOperations],
  },
  {
    name: 'parse',
    testLimit: 20_000,
    files: ['services/rest/parse/*.ts'],
    // Without fuzz.test.ts, which needs thousands of cases to be useful.
    tests: [
      'services/rest/parse/{request,preferences,range,media,query,filter,select,json-scanner,record-keys,payload}.test.ts',
    ],
  },
  {
    name: 'sql',
    runs: 300,
    files: ['services/rest/sql/*.ts'],
    tests: [...ofSql, 'services/rest/sql/quoting.test.ts'],
  },
  { name: 'rest-plan', files: ['services/rest/plan/*.ts'], tests: ['services/rest/plan/*.test.ts', ...ofSql] },
  { name: 'crds', files: ['crds/*.ts', '!crds/generate.ts'], tests: ['crds/*.test.ts'] },
]
