/** A real Postgres in a pod, for the tests of this folder. */
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Pod } from '../../../cluster/index.ts'
import { installationHome } from '../../../operator/postgres/testing/install.ts'
import { createPostgresImages } from '../images/postgres.ts'
import type { RuntimeOptions } from '../index.ts'
import type { PodSpec } from '../pods/environment.ts'
import { openTestCluster, temporaryDirectory, testOwner } from './runtime.ts'

type PostgresOptions = {
  claimName: string
  image?: string
  /** The shell command that prepares the data directory; default: initdb, once. */
  prepare?: string
  settings?: string[]
}

const initialise =
  'test -d /data/pgdata || { rm -rf /data/new; initdb -D /data/new -U postgres --auth=trust --no-sync && mv /data/new /data/pgdata; }'

export function postgresPod({
  claimName,
  image = 'espalier/postgres:18',
  prepare,
  settings = [],
}: PostgresOptions): PodSpec {
  const mount = { volumeMounts: [{ name: 'data', mountPath: '/data' }] }
  return {
    terminationGracePeriodSeconds: 20,
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName } }],
    initContainers: [{ name: 'prepare', image, command: ['sh', '-c', prepare ?? initialise], ...mount }],
    containers: [
      {
        name: 'postgres',
        image,
        command: ['postgres', '-D', '/data/pgdata', '-h', '$(POD_IP)', '-c', 'unix_socket_directories='],
        args: settings.flatMap(setting => ['-c', setting]),
        env: [{ name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } }],
        readinessProbe: { tcpSocket: { port: 5432 } },
        ...mount,
      },
    ],
  }
}

/** Connects as soon as the server accepts connections. */
export async function connectPostgres(status: Pod['status'], deadlineMs = 20_000): Promise<pg.Client> {
  for (const end = performance.now() + deadlineMs; ; ) {
    const client = new pg.Client({ host: status?.podIP ?? '', port: 5432, user: 'postgres', database: 'postgres' })
    client.on('error', () => {})
    try {
      await client.connect()
      return client
    } catch (error) {
      // 57P03: the server is starting up or recovering.
      const early = error instanceof Error && 'code' in error && error.code === '57P03'
      if (!early || performance.now() > end) throw error
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
}

/** A cluster with the packaged Postgres. */
export async function openPostgresCluster(options: Partial<RuntimeOptions> = {}) {
  const home = temporaryDirectory()
  chmodSync(home, 0o711)
  const owner = testOwner()
  const images = createPostgresImages({ home: installationHome(owner), owner, machineDirectories: [] })
  return openTestCluster({ directory: join(home, 'runtime'), runAs: owner, images, ...options })
}
