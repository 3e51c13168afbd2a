/** Checks that imports between folders have one direction (docs/architecture.md), and that no export is unused. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

/** The folders of every installation, embedded or on Kubernetes. */
const installation = [
  ...['crds', 'cluster', 'controller', 'instance', 'routes', 'sealing', 'server', 'values', 'wire'],
  ...['operator', 'api', 'gateway'],
]

/** The other folders that each folder of the product may import. */
const allowed: Record<string, string[]> = {
  values: [],
  sealing: [],
  wire: [],
  // It reads the program's version.
  server: ['package.json'],
  instance: [],
  crds: ['values'],
  routes: ['crds', 'values'],
  cluster: ['crds', 'server', 'values'],
  controller: ['cluster', 'server', 'values'],
  operator: ['crds', 'cluster', 'controller', 'instance', 'routes', 'sealing', 'server', 'values'],
  api: ['crds', 'cluster', 'instance', 'routes', 'sealing', 'server', 'values', 'wire'],
  gateway: ['crds', 'cluster', 'routes', 'sealing', 'server', 'values'],
  csi: ['server'],
  archive: ['instance', 'server'],
  services: ['server', 'values', 'wire'],
  embedded: installation,
  // It needs the embedded installation's address and token.
  cli: ['embedded', 'server', 'values'],
  bin: [...installation, 'embedded', 'archive', 'cli', 'csi', 'services'],
}
const parts = [...Object.keys(allowed), 'bench', 'console', 'e2e', 'images', 'site']
/** The image of Postgres has only this folder of the repository. */
const podFolder = 'instance'

/**
 * The folders that services share. Each entry has the other shared folders that this folder and its tests may import. A
 * service may import all shared folders, but no other service.
 */
const sharedByServices: Record<string, string[]> = {
  http: [],
  process: ['http'],
  samples: ['http'],
  configuration: [],
  postgres: ['cache', 'configuration'],
  'schema-cache': ['postgres'],
  authentication: ['cache', 'http'],
  providers: [],
  'mcp-protocol': ['authentication', 'http'],
  cache: [],
  tokens: [],
  retrieval: ['postgres', 'tokens'],
}
/** The other services that a service's tests may import. Tests of the tool server also run it behind the bridge. */
const partnersInTests: Record<string, string[]> = { mcp: ['mcp-bridge'] }

const isForTests = (path: string) => /\.test\.ts$|(^|\/)testing\//.test(path)

const files = globSync(parts.map(part => `${part}/**/*.{ts,tsx,mjs}`)).filter(path => !path.includes('node_modules'))
const imports = files.flatMap(path =>
  [...readFileSync(path, 'utf8').matchAll(/(?:from|import)\s*\(?'(\.[^']+)'/g)].map(match => ({
    path,
    target: normalize(join(dirname(path), match[1] ?? '')),
  })),
)
const partOf = (path: string) => path.split('/')[0] ?? ''

test('imports between folders have one direction', () => {
  const wrong = imports.filter(({ path, target }) => {
    const [from, to] = [partOf(path), partOf(target)]
    return !isForTests(path) && from !== to && allowed[from]?.includes(to) === false
  })
  expect(imports.length).toBeGreaterThan(500)
  expect(wrong).toEqual([])
})

test('imports have no cycles, including imports of types', () => {
  const targets = Map.groupBy(imports, ({ path }) => path)
  const done = new Set<string>()
  /** Returns a cycle that is reachable from the file. `importers` is the chain of imports that leads to the file. */
  const cycleFrom = (path: string, importers: readonly string[]): string[] | undefined => {
    if (importers.includes(path)) return [...importers.slice(importers.indexOf(path)), path]
    if (done.has(path)) return undefined
    for (const { target } of targets.get(path) ?? []) {
      const cycle = cycleFrom(target, [...importers, path])
      if (cycle !== undefined) return cycle
    }
    done.add(path)
    return undefined
  }
  expect(files.map(path => cycleFrom(path, [])).find(cycle => cycle !== undefined)).toBeUndefined()
})

test('shared folders of services import no service, and import each other in one direction', () => {
  const shared = Object.keys(sharedByServices)
  const folderOf = (path: string) => /^services\/([^/]+)\//.exec(path)?.[1] ?? 'testing'
  const inServices = imports.filter(({ path, target }) => [path, target].every(one => partOf(one) === 'services'))
  const wrong = inServices.filter(({ path, target }) => {
    const [from, to] = [folderOf(path), folderOf(target)]
    if (from === to || (to === 'testing' && isForTests(path))) return false
    if (isForTests(path) && partnersInTests[from]?.includes(to)) return false
    return !(sharedByServices[from] ?? shared).includes(to)
  })
  expect(new Set(inServices.map(({ path }) => folderOf(path)))).toEqual(
    new Set([...shared, 'mcp', 'mcp-bridge', 'rag', 'rest', 'testing']),
  )
  expect(wrong).toEqual([])
})

/** Reads the table of the decision: each folder of the tool server, and the other folders that it may import. */
function tableOfToolServer(): Map<string, readonly string[]> {
  const named = (cell = '') => [...cell.matchAll(/`([\w-]+)`/g)].map(([, name = '']) => name)
  const rows = readFileSync('docs/decisions/0046-tool-server.md', 'utf8').matchAll(/^\| (`.*) \|(.*)\|(.*)\|$/gm)
  return new Map([...rows].flatMap(([, folders, , may]) => named(folders).map(folder => [folder, named(may)])))
}

test('folders of the tool server import what their table allows', () => {
  const table = tableOfToolServer()
  const folderOf = (path: string) => /^services\/mcp\/([^/]+)\//.exec(path)?.[1]
  const inside = imports.filter(({ path, target }) => {
    const [from, to] = [folderOf(path), folderOf(target)]
    return from !== undefined && from !== to && target.startsWith('services/mcp/') && !isForTests(path)
  })
  expect(new Set(inside.map(({ path }) => folderOf(path)))).toEqual(
    new Set([...table].flatMap(([folder, may]) => (may.length > 0 ? [folder] : []))),
  )
  expect(
    inside.filter(({ path, target }) => !table.get(folderOf(path) ?? '')?.includes(folderOf(target) ?? '')),
  ).toEqual([])
})

test('the folder for the image of Postgres imports no other folder', () => {
  const inside = imports.filter(({ path }) => path.startsWith(`${podFolder}/`) && !isForTests(path))
  expect(inside.length).toBeGreaterThan(5)
  expect(inside.filter(({ target }) => !target.startsWith(`${podFolder}/`))).toEqual([])
})

/** The folders of the operator's controllers, one for each kind that they reconcile. */
const controllers = [
  ...['managed-database', 'branch', 'restore', 'backup', 'region', 'task', 'tenant', 'authority'],
  ...['system-certificates', 'access'],
]
const kindOf = (path: string) => controllers.find(kind => path.startsWith(`operator/${kind}/`))

test('members and endpoints do not import or name their owners', () => {
  const owners = ['managed-database', 'branch', 'restore', 'backup', 'region', 'task', 'tenant'].map(
    kind => `operator/${kind}/`,
  )
  const ofInstances = ['member', 'endpoint', 'service', 'children', 'workload']
  const shared = [...ofInstances, 'background-jobs', 'objects', 'postgres', 'pki'].map(folder => `operator/${folder}/`)
  const inside = imports.filter(({ path }) => shared.some(folder => path.startsWith(folder)) && !isForTests(path))
  expect(inside.length).toBeGreaterThan(100)
  expect(inside.filter(({ target }) => owners.some(folder => target.startsWith(folder)))).toEqual([])
  const named = globSync(`operator/{${ofInstances.join(',')}}/**/*.ts`).filter(
    path => !isForTests(path) && readFileSync(path, 'utf8').includes('ManagedDatabase'),
  )
  expect(named).toEqual([])
})

/**
 * Returns the imports of the operator's product code that break a rule, as `from -> to` without `operator/`. A test
 * expects exactly the listed exceptions, so a fixed exception must be removed from the list.
 */
const breaking = (rule: (from: string, to: string) => boolean) =>
  imports
    .filter(({ path, target }) => [path, target].every(one => partOf(one) === 'operator') && !isForTests(path))
    .filter(({ path, target }) => rule(path, target))
    .map(({ path, target }) => `${path} -> ${target}`.replaceAll('operator/', ''))
    .sort()

const isPlan = (path: string) => /\/plan(\/|\.ts$)/.test(path)
const isIn = (path: string, folder: string) => path.startsWith(`operator/${folder}/`)

test("members and endpoints do not import each other's plans", () => {
  const wrong = breaking(
    (from, to) =>
      isPlan(to) && ((isIn(from, 'member') && isIn(to, 'endpoint')) || (isIn(from, 'endpoint') && isIn(to, 'member'))),
  )
  expect(wrong).toEqual([])
})

test('plans of owners import members only through the workload, and actions of endpoints import no members', () => {
  const plansOfOwners = ['managed-database', 'branch'].map(kind => `operator/${kind}/plan/`)
  const wrong = breaking(
    (from, to) =>
      isIn(to, 'member') &&
      (plansOfOwners.some(folder => from.startsWith(folder)) || from === 'operator/endpoint/act.ts'),
  )
  // The plan reads the size in a template from a version whose digests had no sizes.
  expect(wrong).toEqual(['managed-database/plan/operation.ts -> member/pod/stateful-set.ts'])
})

test('restores import members, endpoints and backups, and no other owner', () => {
  const folders = breaking((from, to) => isIn(from, 'restore') && !isIn(to, 'restore') && /^operator\/[^/]+\//.test(to))
  expect(new Set(folders.map(arrow => /-> ([^/]+)/.exec(arrow)?.[1]))).toEqual(
    new Set(['backup', 'children', 'endpoint', 'member', 'objects', 'run']),
  )
})

/** The folders that owners share, and the controller of owners. Each entry has the folders that it may import. */
const belowOwners: Record<string, string[]> = {
  pki: [],
  objects: [],
  'background-jobs': [],
  postgres: ['pki'],
  children: ['objects'],
  member: ['authority', 'children', 'background-jobs', 'objects', 'pki', 'postgres'],
  endpoint: ['authority', 'children', 'member', 'objects', 'pki', 'postgres'],
  service: ['children', 'clock', 'endpoint', 'member', 'objects', 'postgres'],
  workload: ['children', 'clock', 'endpoint', 'member', 'objects', 'postgres', 'service'],
  owner: ['access', 'children', 'clock', 'endpoint', 'member', 'objects', 'postgres', 'service', 'task', 'workload'],
}

test('owners, workload, members and endpoints import only folders of lower layers', () => {
  const folderOf = (path: string) => /^operator\/([^/]+)\//.exec(path)?.[1]
  const wrong = breaking((from, to) => {
    const [folder, other] = [folderOf(from), folderOf(to)]
    // All folders may import files directly in operator/, such as configuration.ts.
    if (folder === undefined || other === undefined || folder === other) return false
    return belowOwners[folder]?.includes(other) === false
  })
  expect(wrong).toEqual([])
})

test('only the controller of owners writes the status of databases and branches', () => {
  const writing = globSync('operator/**/*.ts').filter(
    path => !isForTests(path) && /replaceStatus\(('(ManagedDatabase|Branch)'|[^'])/.test(readFileSync(path, 'utf8')),
  )
  expect(writing.sort()).toEqual(['operator/caches/cache-set.ts', 'operator/owner/controller.ts'])
})

test('the workload itself writes no objects, except that it deletes leftovers', () => {
  const writing = globSync('operator/workload/**/*.ts').filter(
    path =>
      !isForTests(path) && /cluster\.(create|apply|replace|replaceStatus|delete)\(/.test(readFileSync(path, 'utf8')),
  )
  expect(writing).toEqual(['operator/workload/leftovers.ts'])
})

test('a restore candidate uses no workload, and a branch before its copy only the plan of endpoints', () => {
  const plansOf = (file: string) =>
    imports
      .filter(
        ({ path, target }) =>
          path === `operator/${file}` && /^operator\/(member|endpoint|workload)\/plan\//.test(target),
      )
      .map(({ target }) => target.replace('operator/', ''))
      .sort()
  expect(plansOf('branch/plan/copying.ts')).toEqual(['endpoint/plan/index.ts'])
  const fromWorkload = imports.filter(
    ({ path, target }) => path === 'operator/restore/candidate.ts' && target.startsWith('operator/workload/'),
  )
  expect(fromWorkload).toEqual([])
})

test('only the workload and the restore candidate call observeMember, and restores do not call observeInstance', () => {
  const callers = globSync('operator/**/*.ts').filter(
    path => !isForTests(path) && /\b(await|return) observeMember\(/.test(readFileSync(path, 'utf8')),
  )
  expect(callers.sort()).toEqual(['operator/restore/candidate.ts', 'operator/workload/observe.ts'])
  const ofRestore = globSync('operator/restore/*.ts').filter(path => !isForTests(path))
  expect(ofRestore.filter(path => readFileSync(path, 'utf8').includes('observeInstance'))).toEqual([])
})

test('observation imports no plan', () => {
  expect(breaking((from, to) => /\/observed?\.ts$/.test(from) && isPlan(to))).toEqual([])
})

test('no controller imports the plan of another', () => {
  const wrong = breaking((from, to) => isPlan(to) && kindOf(to) !== undefined && kindOf(from) !== kindOf(to))
  expect(wrong).toEqual([])
})

test('the example operator imports only the controller runtime, and has less than 100 lines', () => {
  const example = 'controller/example/operator.ts'
  expect(imports.filter(({ path }) => path === example).map(({ target }) => target)).toEqual(['controller/index.ts'])
  expect(readFileSync(example, 'utf8').split('\n').length).toBeLessThan(100)
})

test('the product imports no code that is only for tests', () => {
  const product = imports.filter(({ path }) => allowed[partOf(path)] !== undefined && !isForTests(path))
  expect(product.filter(({ target }) => isForTests(target))).toEqual([])
})

/** The controller runtime can become a separate package, so it exports everything that its README documents. */
const publicInterface = 'controller/index.ts'
/** Stryker reads this export by its name. */
const plugins = 'mutants/plugins.ts strykerPlugins'
/** The generated file exports all types of the API. */
const generated = 'console/src/api/schema.ts'

test('every export is imported somewhere', () => {
  const everywhere = globSync('**/*.{ts,tsx,mjs}', { exclude: path => /(^|\/)(node_modules|\.[^/]+)$/.test(path) })
  const texts = new Map(everywhere.map(path => [path, readFileSync(path, 'utf8')]))
  const names = (list: string, end: 0 | -1) =>
    list.split(',').flatMap(item => /^(?:type )?(.+)$/.exec(item.trim())?.[1]?.split(' as ').at(end) ?? [])
  const imported = new Set<string>()
  for (const [path, text] of texts) {
    const at = (target: string) => normalize(join(dirname(path), target))
    for (const [, list = '', target = ''] of text.matchAll(/\{([^{}]*)\}\s*from '(\.[^']+)'/g))
      for (const name of names(list, 0)) imported.add(`${at(target)} ${name}`)
    for (const [, target = ''] of text.matchAll(/(?:\*[\w\s]*from|import\()\s*'(\.[^']+)'/g))
      imported.add(`${at(target)} *`)
  }
  const declaration = /^export (?:async )?(?:const|let|function\*?|(?:abstract )?class|type|interface) (\w+)/gm
  const exported = [...texts].flatMap(([path, text]) => [
    ...[...text.matchAll(declaration)].map(([, name = '']) => `${path} ${name}`),
    ...[...text.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, list = '']) =>
      names(list, -1).map(name => `${path} ${name}`),
    ),
  ])
  const isUsed = (one: string) => imported.has(one) || imported.has(`${one.split(' ')[0]} *`)
  expect(exported.length).toBeGreaterThan(1000)
  expect(
    exported.filter(
      one => ![publicInterface, generated].includes(one.split(' ')[0] ?? '') && one !== plugins && !isUsed(one),
    ),
  ).toEqual([])
})
