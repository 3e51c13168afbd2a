/** The image `espalier` in a runtime: its user, its contents, and its resolution of Services. */
import { execFile } from 'node:child_process'
import { globSync, mkdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { createNamesFile } from '../network/names.ts'
import {
  namespace,
  nodeImage,
  openTestStore,
  startTestRuntime,
  temporaryDirectory,
  testOwner,
  until,
} from '../testing/runtime.ts'
import { serviceFolders, servicePackages, withServicesImage } from './services.ts'

const run = promisify(execFile)

function imageIn(home: string, owner = testOwner()) {
  return withServicesImage(nodeImage, { home, owner, names: join(home, 'binaries/service-names') })
}

test("a pod runs `espalier` as the workloads' user", async () => {
  const directory = temporaryDirectory()
  const home = join(directory, 'home')
  mkdirSync(home, { mode: 0o755 })
  const { store, cluster } = await openTestStore()
  const runtime = await startTestRuntime(store, { directory: join(directory, 'runtime'), images: imageIn(home) })
  await cluster.create('Pod', {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'service', namespace },
    spec: {
      restartPolicy: 'Never',
      containers: [{ name: 'rest', image: 'espalier', command: ['espalier', 'rest', '--example'] }],
    },
  })
  await until(async () => (await cluster.get('Pod', { namespace, name: 'service' }))?.status?.phase === 'Succeeded')
  const lines = await runtime.logs({ namespace, name: 'service' })
  expect(lines.join('\n')).toContain('db-uri')
})

const serviceFiles = globSync(serviceFolders.map(folder => `${folder}/**/*.ts`)).filter(
  path => !/\.test\.ts$|(^|\/)testing\/|^bin\/(?!(main|command)\.ts|commands\/(rest|rag|mcp|mcp-bridge)\b)/.test(path),
)

test('every folder from which the services import is copied', () => {
  const imported = serviceFiles.flatMap(path =>
    [...readFileSync(path, 'utf8').matchAll(/^(?:import|export|\}).* from '(\.[^']+)'/gm)].map(([, target = '']) =>
      join(dirname(path), target),
    ),
  )
  expect(imported.length).toBeGreaterThan(100)
  expect(new Set(imported.map(path => path.split('/')[0]))).toEqual(new Set([...serviceFolders, 'package.json']))
})

test('exactly the packages that the services import are listed', () => {
  const packages = /(?:^(?:import|export|\}).* from |\bimport\()'((?:@[\w.-]+\/)?[a-z][\w.-]*)(?:\/[\w./-]+)?'/gm
  const imported = serviceFiles.flatMap(path =>
    [...readFileSync(path, 'utf8').matchAll(packages)].map(([, name]) => name),
  )
  expect([...new Set(imported)].toSorted()).toEqual(servicePackages.toSorted())
})

test('a server resolves a Service by its name, and other names as usual', async () => {
  const home = temporaryDirectory()
  const names = join(home, 'binaries/service-names')
  const file = createNamesFile(names, error => expect.unreachable(String(error)))
  const server = createServer(socket => socket.end('found')).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await until(() => server.listening)
  const address = server.address()
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0
  file.use('tenant')
  file.put([
    { namespace: 'tenant', service: 'db-1', ports: [{ port: 5432, addresses: [{ host: '127.0.0.1', port }] }] },
  ])
  await until(() => globSync(names).length === 1)
  const { path } = await imageIn(home, undefined)('espalier')
  const script = readFileSync(join(path[0] ?? '', 'espalier'), 'utf8')
  const preload = /--import '([^']+)'/.exec(script)?.[1] ?? ''
  const connect = (host: string) =>
    run(process.execPath, [
      ...['--import', preload, '--input-type=module', '--eval'],
      `import { connect } from 'node:net'
       connect(${port}, '${host}').on('error', error => console.log(error.code)).pipe(process.stdout)`,
    ])
  expect((await connect('db-1.tenant.svc')).stdout).toBe('found')
  expect((await connect('localhost')).stdout).toBe('found')
  expect((await connect('db-2.tenant.svc')).stdout.trim()).toMatch(/ENOTFOUND|EAI_AGAIN/)
  file.put([{ namespace: 'tenant', service: 'db-1', ports: [] }])
  await until(() => readFileSync(names, 'utf8') === '')
})
