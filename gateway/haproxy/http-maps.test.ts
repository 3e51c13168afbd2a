import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type HttpRoute, httpRouteName, routeKey } from '../../routes/route.ts'
import { buildHosts } from '../http/table.ts'
import { createHttpEndpointCache, type HttpEndpoints, httpContentOf, planHttpMaps } from './http-maps.ts'
import { pathsIn } from './paths.ts'

const paths = pathsIn('/run')
const hostsOf = (routes: HttpRoute[]) => {
  const maps = routes.map(route => ({
    ...({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: httpRouteName(route.host) } } as const),
    data: { [routeKey]: JSON.stringify(route) },
  }))
  const { table, problems } = buildHosts(maps)
  expect(problems).toEqual([])
  return table
}
const endpointsOf = (routes: HttpRoute[], addresses: Record<string, string> = {}) =>
  createHttpEndpointCache(({ service }) => addresses[service] ?? `10.96.0.1:3000`).endpoints(hostsOf(routes))

type Service = HttpRoute['services'][number]
const rest = (rules: string[], more: Partial<Service> = {}): Service => ({
  ...{ service: 'rest', target: { namespace: 'n', service: 'db-1-rest', port: 3000 }, rules },
  ...more,
})
const routeOf = (host: string, databaseId: string, services: Service[]): HttpRoute => ({
  ...{ kind: 'http', host, databaseId, label: host, services },
})

/**
 * The maps as HAProxy keeps them. The test fails if the plan adds an existing key, or changes a missing key.
 */
class Maps {
  readonly entries: Record<string, Map<string, string>> = { [paths.services]: new Map(), [paths.callers]: new Map() }
  constructor(endpoints: HttpEndpoints) {
    for (const { map, lines } of httpContentOf(paths, endpoints))
      for (const line of lines) this.apply(`add map ${map} ${line}`)
  }
  apply(command: string): void {
    const [verb, , map = '', key = '', value = ''] = command.split(' ')
    const entries = this.entries[map] ?? new Map()
    expect(entries.has(key), command).toBe(verb !== 'add')
    if (verb === 'del') entries.delete(key)
    else entries.set(key, value)
  }
  /** The target of a caller; undefined if it is refused. */
  targetOf(owner: string, block: string): string | undefined {
    const [network, address, port] = this.entries[paths.services]?.get(`${owner}/rest`)?.split('|') ?? []
    if (network === undefined || !this.entries[paths.callers]?.has(`${network}:${block}`)) return undefined
    return `${address}:${port}`
  }
}

const blocks = ['0.0.0.0/96', '10.0.0.0/104', '10.1.0.0/112']
const rules = fc.uniqueArray(fc.constantFrom('0.0.0.0/0', '10.0.0.0/8', '10.1.0.0/16'))
const services: fc.Arbitrary<Service[]> = fc
  .record({ rules, suspended: fc.boolean(), there: fc.boolean() })
  .map(({ rules, suspended, there }) => (there ? [rest(rules, suspended ? { unavailable: 'suspended' } : {})] : []))
/** Random routes: at most two host names, each with one of three databases. */
const routes: fc.Arbitrary<HttpEndpoints> = fc
  .uniqueArray(fc.tuple(fc.constantFrom('a.db.test', 'b.db.test'), fc.constantFrom('id-1', 'id-2', 'id-3'), services), {
    selector: ([host]) => host,
  })
  .map(all =>
    createHttpEndpointCache(() => undefined).endpoints(
      hostsOf(
        all.map(([host, id, list]) =>
          routeOf(
            host,
            id,
            list.map(service => ({ ...service, target: { ...service.target, service: id } })),
          ),
        ),
      ),
    ),
  )

describe('planHttpMaps', () => {
  test('transforms any maps into any other maps, and returns no command for equal maps', () => {
    fc.assert(
      fc.property(routes, routes, (have, want) => {
        const maps = new Maps(have)
        const commands = planHttpMaps(paths, have, want)
        for (const command of commands) maps.apply(command)
        expect(maps.entries).toEqual(new Maps(want).entries)
        expect(planHttpMaps(paths, want, want)).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  test('never admits a caller to another database, after any of the commands', () => {
    const before = endpointsOf([routeOf('a.db.test', 'one', [rest(['10.0.0.0/8'])])])
    const after = endpointsOf([routeOf('a.db.test', 'two', [rest(['10.1.0.0/16'])])], { 'db-1-rest': '10.96.0.2:3000' })
    const maps = new Maps(before)
    for (const command of planHttpMaps(paths, before, after)) {
      maps.apply(command)
      for (const block of blocks)
        expect([undefined, ['10.0.0.0/104', '10.96.0.1:3000'], ['10.1.0.0/112', '10.96.0.2:3000']]).toContainEqual(
          maps.targetOf('a.db.test', block) && [block, maps.targetOf('a.db.test', block)],
        )
    }
  })

  test('never refuses a caller that stays admitted', () => {
    const before = endpointsOf([routeOf('a.db.test', 'one', [rest(['10.0.0.0/8', '0.0.0.0/0'])])])
    const after = endpointsOf([routeOf('a.db.test', 'one', [rest(['10.0.0.0/8', '10.1.0.0/16'])])])
    expect(planHttpMaps(paths, before, after).map(command => command.split(' ')[0])).toEqual(['add', 'del'])
  })

  test('changes one entry per name when the address changes', () => {
    const route = routeOf('a.db.test', 'one', [rest(['10.0.0.0/8'])])
    const before = endpointsOf([route])
    const after = endpointsOf([route], { 'db-1-rest': '10.96.0.9:3000' })
    expect(planHttpMaps(paths, before, after)).toEqual([
      expect.stringMatching(
        /^set map \/run\/services.map a\.db\.test\/rest fd01:[0-9a-f:]+\|10\.96\.0\.9\|3000\|\|\|$/,
      ),
      expect.stringMatching(/^set map \/run\/services.map \/one\/rest fd01:/),
    ])
  })
})

test('the endpoint cache returns the same entries until the route or an address of its targets changes', () => {
  let address: string | undefined = '10.96.0.1:3000'
  const cache = createHttpEndpointCache(() => address)
  const hosts = hostsOf([routeOf('a.db.test', 'one', [rest(['10.0.0.0/8'])])])
  const first = cache.endpoints(hosts).get('a.db.test')
  expect(cache.endpoints(hosts).get('a.db.test')).toBe(first)
  address = undefined
  expect(cache.endpoints(hosts).get('a.db.test')).not.toBe(first)
})
