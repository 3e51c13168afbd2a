/** A changed size stops the chart while it is rendered: a real Helm queries a fake API server. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { findHelm } from './testing/helm.ts'

const chart = join(import.meta.dirname, 'espalier')
const helm = findHelm()
const groupVersion = 'espalier.dev/v1alpha1'

/** The chart's output with this shape of nano-v1 in the cluster. */
async function renderedOver(program: string, shape: object): Promise<string> {
  const size = { apiVersion: groupVersion, kind: 'Size', metadata: { name: 'nano-v1' }, spec: { shape } }
  const resource = { name: 'sizes', singularName: 'size', namespaced: false, kind: 'Size', verbs: ['get'] }
  const answers: Record<string, object> = {
    [`/apis/${groupVersion}`]: { kind: 'APIResourceList', apiVersion: 'v1', groupVersion, resources: [resource] },
    [`/apis/${groupVersion}/sizes/nano-v1`]: size,
  }
  const nothing = { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'NotFound', code: 404 }
  const server = createServer((request, response) => {
    const answer = answers[(request.url ?? '').split('?', 1)[0] ?? '']
    response.writeHead(answer === undefined ? 404 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer ?? nothing))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const directory = await mkdtemp(join(tmpdir(), 'espalier-chart-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const { port } = server.address() as AddressInfo // a TCP server has an AddressInfo
  const kubeconfig = join(directory, 'kubeconfig')
  await writeFile(
    kubeconfig,
    stringify({
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'c',
      users: [{ name: 'u', user: {} }],
    }),
  )
  const values = ['image.repository=a/b', 'postgres.images.18=a/c:18', 'api.authentication.issuer=https://issuer.test']
  values.push('api.authentication.audience=espalier', 'api.authentication.jwksUrl=https://issuer.test/keys')
  const args = ['template', 'espalier', chart, '--namespace', 'espalier-system', '--kubeconfig', kubeconfig]
  args.push('--dry-run=server', '--kube-version', '1.36.0', '--api-versions', `${groupVersion}/Size`)
  args.push(...values.flatMap(value => ['--set-string', value]))
  return new Promise(resolve =>
    execFile(program, args, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) =>
      resolve(error === null ? stdout : stderr),
    ),
  )
}

if (helm === undefined) test.skip('chart espalier, changed sizes: needs helm', () => {})
else
  test('an unchanged size is rendered, a changed one is refused with instructions', async () => {
    const { sizes } = parse(readFileSync(join(chart, 'values.yaml'), 'utf8'), { merge: true })
    const { shape } = sizes[0]
    expect(await renderedOver(helm, shape)).toContain('name: nano-v1')
    expect(await renderedOver(helm, { ...shape, memoryLimit: '9Gi' })).toContain(
      'sizes: nano version 1 exists with another shape, and a shape never changes: give the new shape as version 2',
    )
  })
