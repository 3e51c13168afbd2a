/**
 * A runtime in a separate process, for kill tests: `node recovery.ts <directory> <package home>`. It stores its objects
 * in the directory, applies one StatefulSet of Postgres, and prints a line when its pod is ready.
 */
import { join } from 'node:path'
import { pino } from 'pino'
import { openStore } from '../../store/index.ts'
import { createPostgresImages, startRuntime } from '../index.ts'
import { postgresPod } from './postgres.ts'
import { claim, namespace, ready, statefulSet, testOwner, untilPod } from './runtime.ts'

const [directory = '', home = ''] = process.argv.slice(2)
const set = statefulSet('db', postgresPod({ claimName: 'data' }))

const logger = pino({ level: process.env.ESPALIER_TEST_LOG ?? 'silent' })
const store = await openStore({ directory: join(directory, 'store'), definitions: [], logger })
const cluster = store.connect('fixture')
await cluster.apply('Namespace', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
const runtime = await startRuntime({
  cluster: store.connect('runtime'),
  directory: join(directory, 'runtime'),
  images: createPostgresImages({ home, owner: testOwner(), machineDirectories: [] }),
  runAs: testOwner(),
  backoff: { initialMs: 100, maximumMs: 200, resetAfterMs: 60_000 },
  logger,
})
process.once('SIGTERM', async () => {
  await runtime.stop()
  await store.close()
  process.exit(0)
})
process.stdout.write('started\n')
await cluster.apply('PersistentVolumeClaim', claim('data'))
await cluster.apply('StatefulSet', set)
const up = await untilPod(cluster, 'db-0', ready, 60_000)
process.stdout.write(`ready ${JSON.stringify(up.status)}\n`)
