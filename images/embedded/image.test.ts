/** The image of an embedded installation, run as `docker run` does: one container with one volume. */
import { chownSync } from 'node:fs'
import { beforeAll, describe, expect, test } from 'vitest'
import { createApiClient, query } from '../../e2e/client.ts'
import { findFreeRange } from '../../embedded/ports.ts'
import { describeHygiene } from '../testing/hygiene.ts'
import { hasImages, isBuilt, type Opened, openImage, until } from '../testing/images.ts'

const name = process.env.ESPALIER_TEST_EMBEDDED_IMAGE || 'localhost/espalier-embedded:dev'
const user = { uid: 10001, gid: 10001, groups: [] }
const host = '127.0.0.1'

function describeEmbedded(): void {
  let opened: Opened
  beforeAll(async () => {
    opened = await openImage(name)
    return () => opened.close()
  })

  describeHygiene(() => opened, ['/var/lib/espalier'])

  test('listens where a container publishes its ports, and keeps its data in one volume', () => {
    expect(opened.image.environment).toEqual(
      expect.arrayContaining(['ESPALIER_LISTEN=0.0.0.0', 'ESPALIER_HOME=/var/lib/espalier']),
    )
    expect(opened.image.labels).toMatchObject({ 'org.opencontainers.image.title': 'Espalier on one machine' })
  })

  test.each(['18', '17', '16'])(
    'runs a database of Postgres %s, which is available again after a stop',
    async pgVersion => {
      const volume = opened.directory(`home-${pgVersion}`)
      chownSync(volume, user.uid, user.gid)
      const { first, last } = await findFreeRange(host, 9)
      const start = async () => {
        const container = opened.start({
          user,
          environment: {
            ESPALIER_API_PORT: String(first),
            ESPALIER_HTTPS_PORT: String(first + 1),
            ESPALIER_PORTS: `${first + 2}-${last}`,
          },
          mounts: [
            { path: '/var/lib/espalier', readOnly: false, directory: volume },
            { path: '/tmp', readOnly: false, memory: 64 * 1024 * 1024 },
            // The default size of Docker.
            { path: '/dev/shm', readOnly: false, memory: 64 * 1024 * 1024 },
          ],
        })
        await until(() => container.output().includes('Ready.'), container.output, 120_000)
        const token = /^TOKEN (.+)$/m.exec(container.output())?.[1] ?? ''
        return { container, api: createApiClient(`http://${host}:${first}`, token) }
      }
      const { container, api } = await start()
      const ip_allowlist = { rules: [{ cidr: '127.0.0.1/32' }] }
      const { body } = await api.create({ name: 'shop', pg_version: pgVersion, ip_allowlist })
      expect(body.status, container.output()).toBe('available')
      const connection = await api.connection(body.id)
      await query(connection, 'CREATE TABLE fruit AS SELECT 1 AS id')
      container.kill('SIGTERM')
      expect(await container.exited).toBe(0)

      const again = await start()
      const found = await again.api.connection(body.id)
      await until(
        () =>
          query(found, 'TABLE fruit').then(
            rows => rows.length === 1,
            () => false,
          ),
        again.container.output,
        60_000,
      )
      again.container.kill('SIGTERM')
      expect(await again.container.exited).toBe(0)
    },
    240_000,
  )
}

if (hasImages && (await isBuilt(name))) describe('image of the embedded default', describeEmbedded)
else test.skip('image of the embedded default: needs ESPALIER_TEST_IMAGES')
