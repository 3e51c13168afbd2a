/** A client of a harness. It checks every response against the API description. */
import { expect } from 'vitest'
import { type ManagedDatabase, tenantNamespace } from '../../crds/index.ts'
import { type Contract, contractOf, descriptionOf } from './contract.ts'
import { type Claims, type Harness, type HarnessOptions, reconcile, startHarness, token } from './harness.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into whatever came back
type Answer = { status: number; headers: Record<string, unknown>; body: any }
type Call = (
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'HEAD' | 'OPTIONS',
  path: string,
  options?: { body?: unknown; headers?: Record<string, string>; claims?: Claims; token?: string | null },
) => Promise<Answer>

export type Client = Harness & {
  call: Call
  create: (name: string, more?: object) => Promise<Answer>
  contract: Contract
}

/** Expects exactly one JSON error. */
export function expectError(answer: Answer, status: number, message?: string | RegExp): void {
  expect(answer).toMatchObject({ status, body: { code: status, message: expect.any(String) } })
  expect(Object.keys(answer.body).filter(key => !['code', 'message', 'reason'].includes(key))).toEqual([])
  expect(answer.headers['x-request-id']).toMatch(/^[\w.:+/=-]{1,128}$/)
  expect(answer.body.message).not.toMatch(/\bat .*\.[tj]s:|node:|Error:|\/api\//)
  if (message !== undefined) expect(answer.body.message).toMatch(message)
}

/** `/managed/v1` is prepended to every path that does not begin with a dot. */
const urlOf = (path: string): string => (path.startsWith('.') ? path.slice(1) : `/managed/v1${path}`)

export async function startClient(options: HarnessOptions = {}): Promise<Client> {
  const harness = await startHarness(options)
  const contract = contractOf(await descriptionOf(harness.app))
  const call: Call = async (method, path, { body, headers = {}, claims = {}, token: given } = {}) => {
    const bearer = given === null ? {} : { authorization: `Bearer ${given ?? (await token(claims))}` }
    const response = await harness.app.inject({
      method,
      url: urlOf(path),
      headers: { ...bearer, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const isJson = String(response.headers['content-type'] ?? '').includes('/json') && response.body !== ''
    const answer = {
      status: response.statusCode,
      headers: response.headers,
      body: isJson ? response.json() : response.body,
    }
    contract(method, urlOf(path), answer)
    return answer
  }
  const create = (name: string, more: object = {}) =>
    call('POST', '/databases', { body: { name, region: 'local', size: 'small', ...more } })
  return { ...harness, call, create, contract }
}

/** Creates a database of the default tenant and makes it stable. Returns its id. */
export async function createStable(client: Client, name: string, more: object = {}): Promise<string> {
  const { status, body } = await client.create(name, more)
  expect(status).toBe(200)
  await reconcile(client.cluster, 'acme', name)
  await until(async () => (await client.call('GET', `/databases/${body.id}`)).body.status === 'available')
  return body.id
}

/**
 * Polls until the condition is true. Fails after 30 s, which is much longer than the 5 s for which credentials are
 * cached.
 */
export async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('the condition did not become true in time')
    await new Promise(resolve => setTimeout(resolve, 2))
  }
}

/** The stored object of the default tenant's database. */
export async function storedDatabase({ cluster }: Client, name: string): Promise<ManagedDatabase> {
  const database = await cluster.get('ManagedDatabase', { namespace: tenantNamespace('acme'), name })
  if (database === undefined) throw new Error(`${name} is not stored`)
  return database
}

/** Sets the snapshot support of the region's volumes; undefined: none. */
export async function setSnapshotClass(
  { cluster }: Client,
  snapshotClass: { name: string; atomic: boolean } | undefined,
): Promise<void> {
  const region = await cluster.get('Region', { name: 'local' })
  if (region === undefined) throw new Error('there is no region')
  const { snapshotClass: _, ...spec } = region.spec
  await cluster.replace('Region', { ...region, spec: { ...spec, ...(snapshotClass && { snapshotClass }) } })
}
