/**
 * The authority is replaced under a serving database. Sessions continue, a client that verifies everything and trusts
 * both authorities can always connect, and Postgres is not restarted. The test is slow: kubelets update Secrets within
 * a minute, and each step waits three.
 */
import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { childNames, systemNamespace } from '../../crds/index.ts'
import { createAuthority } from '../../operator/pki/index.ts'
import { authorityConfigMap, authoritySecret, nextAuthoritySecret } from '../../sealing/credentials.ts'
import { type Connection, connect } from '../client.ts'
import { minutes, type Serving, startServing } from './serving.ts'

const sessionCount = 10

let it: Serving

beforeAll(async () => {
  it = await startServing('authority', 'trusted')
}, minutes(4))
afterAll(async () => {
  // The API now has another certificate than the one that this process trusts.
  await it?.provider.kubectl(['delete', 'mdb', 'trusted', '-n', it.namespace, '--wait=false'])
  await it?.provider.stop()
}, minutes(3))

const text = (data: Record<string, string> | undefined, key: string) =>
  Buffer.from(data?.[key] ?? '', 'base64').toString('utf8')
const servedCertificate = async () => {
  const secret = await it.provider.cluster.get('Secret', { namespace: systemNamespace, name: authoritySecret })
  return text(secret?.data, 'tls.crt')
}
const published = async () => {
  const map = await it.provider.cluster.get('ConfigMap', { namespace: systemNamespace, name: authorityConfigMap })
  return map?.data?.['ca.crt'] ?? ''
}
const isThere = async (name: string) =>
  (await it.provider.cluster.get('Secret', { namespace: systemNamespace, name })) !== undefined

test(
  'an authority is replaced: nothing restarts, and clients that trust both are not affected',
  async () => {
    const connection: Connection = await it.api.connection(it.database.id)
    const servername = `${childNames.service(it.database.id)}.${it.namespace}.svc`
    const verified = (ca: string): Promise<pg.Client> => connect(connection, { ssl: { ca, servername } })
    const before = (await it.provider.postmaster(it.namespace, it.database.id)).id
    const old = await published()
    const { cert, key } = createAuthority()
    const both = `${old}${cert}`
    const sessions = await Promise.all(Array.from({ length: sessionCount }, () => verified(old)))

    await it.provider.cluster.create('Secret', {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace: systemNamespace, name: nextAuthoritySecret },
      data: { 'tls.crt': Buffer.from(cert).toString('base64'), 'tls.key': Buffer.from(key).toString('base64') },
    })
    const bundles = new Set<string>()
    const end = Date.now() + minutes(25)
    while (Date.now() < end && ((await servedCertificate()) !== cert || (await isThere(nextAuthoritySecret)))) {
      const client = await verified(both)
      await client.query('SELECT 1')
      await client.end()
      await Promise.all(sessions.map(session => session.query('SELECT 1')))
      bundles.add(await published())
      await sleep(1_000)
    }

    // Later test files verify the API with this file.
    const { NODE_EXTRA_CA_CERTS: trusted } = process.env
    if (trusted !== undefined) await writeFile(trusted, await published())
    expect(await servedCertificate()).toBe(cert)
    expect(await published()).toBe(cert)
    expect([...bundles]).toEqual(expect.arrayContaining([both, `${cert}${old}`]))
    await Promise.all(sessions.map(session => session.query('SELECT 1')))
    await Promise.all(sessions.map(session => session.end()))
    expect((await it.provider.postmaster(it.namespace, it.database.id)).id).toBe(before)
    await expect(verified(old)).rejects.toThrow(/certificate/)
    const reconnected = await verified(cert)
    await reconnected.end()
  },
  minutes(28),
)
