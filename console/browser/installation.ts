/** Starts an API in this process for tests of the console. A fake operator (the stand-in) completes its databases. */
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { configurationOf, type Harness, startHarness, token } from '../../api/testing/harness.ts'
import { startStandIn } from '../../api/testing/stand-in.ts'
import { tenantNamespace } from '../../crds/index.ts'

export const dist = fileURLToPath(new URL('../dist', import.meta.url))

export type Installation = {
  address: string
  harness: Harness
  token: () => Promise<string>
  /** Sends a request as the default user. */
  call: (method: string, path: string, body?: unknown) => Promise<{ status: number; body: Record<string, string> }>
  stop: () => Promise<void>
}

/**
 * Starts the API and the stand-in.
 * @param changes changes to the default configuration of the API
 */
export async function startInstallation(changes: Record<string, unknown> = {}): Promise<Installation> {
  const harness = await startHarness({ consoleDirectory: dist, configuration: configurationOf(changes) })
  const stopStandIn = await startStandIn(harness)
  await harness.app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = harness.app.server.address() as AddressInfo
  const address = `http://127.0.0.1:${port}`
  const hourToken = () => token({ exp: Math.floor(Date.now() / 1000) + 3600 })
  const bearer = await hourToken()
  return {
    address,
    harness,
    token: hourToken,
    call: async (method, path, body) => {
      const response = await fetch(`${address}/managed/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : {} }
    },
    stop: async () => {
      await stopStandIn()
      await harness.close()
    },
  }
}

/**
 * Creates two databases, a backup and a branch. Marks one task as failed.
 * @param hostile a text with code that the console must not run
 */
export async function fill({ call, harness: { cluster } }: Installation, hostile: string) {
  const region = await cluster.get('Region', { name: 'local' })
  if (region === undefined) throw new Error('region "local" does not exist')
  await cluster.replace('Region', {
    ...region,
    spec: { ...region.spec, snapshotClass: { name: 'fast', atomic: true } },
  })
  const write = async (method: string, path: string, body: unknown) => {
    const answer = await call(method, path, body)
    if (answer.status >= 300) throw new Error(`${path}: ${answer.status} ${answer.body.message}`)
    return answer.body
  }
  const label = hostile.slice(0, 25)
  const { id = '' } = await write('POST', '/databases', {
    ...{ name: 'shop', region: 'local', size: 'small', display_name: label, options: [hostile] },
    ip_allowlist: { rules: [{ cidr: '203.0.113.7', label }] },
  })
  await write('POST', '/databases', { name: 'reports', region: 'local', size: 'large' })
  const isAvailable = async () => (await call('GET', `/databases/${id}`)).body.status === 'available'
  await until(isAvailable)
  // The API may not have read the new snapshot class yet.
  await until(async () => (await call('POST', `/databases/${id}/backup`, { kind: 'hot' })).status < 300)
  let branchId = ''
  await until(async () => {
    const { status, body } = await call('POST', `/databases/${id}/branches`, { display_name: label })
    branchId = body.id ?? ''
    return status < 300
  })
  await until(isAvailable)
  const { items } = await cluster.list('Task', { namespace: tenantNamespace('acme') })
  for (const task of items.slice(0, 1)) {
    const message = { time: new Date().toISOString(), level: 'error' as const, text: hostile }
    await cluster.replaceStatus('Task', { ...task, status: { phase: 'failed', error: hostile, messages: [message] } })
  }
  await until(async () => (await call('GET', `/databases/${id}/branches/${branchId}`)).body.status === 'available')
  return { id, branchId }
}

export async function until(condition: () => Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 20_000
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error('timeout: the installation did not reach the expected state')
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}
