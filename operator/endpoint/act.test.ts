/** Planned writes of credentials, certificates and ports in a cluster that has changed since the observation. */
import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Secret } from '../../cluster/index.ts'
import { childNames } from '../../crds/index.ts'
import { trustIn } from '../authority/state.ts'
import type { PostgresAccess } from '../member/postgres/access.ts'
import { createAuthority } from '../pki/index.ts'
import { key, useActions } from '../testing/actions.ts'
import type { Executor, Pass } from '../workload/act.ts'
import type { Action } from '../workload/actions.ts'
import { fingerprintOf, loadedAnnotation } from './certificate.ts'
import { openCredentials } from './credentials.ts'

const it = useActions()
const { passOf } = it

describe('credentials', () => {
  const sealingKey = randomBytes(32)
  const keys = { sealingKey, authority: undefined }
  const credentials = () => it.cluster.get('Secret', key(childNames.credentials(it.owner.id)))
  const mint = () => passOf({ pass: { keys } }).do({ do: 'mint-credentials' })

  test('are created once', async () => {
    expect(await mint()).toBe('done')
    const minted = await credentials()
    expect(Object.keys(minted?.data ?? {})).toEqual(['admin', 'app', 'app_read_only'])
    expect(await mint()).toBe('done')
    expect((await credentials())?.data).toEqual(minted?.data)
  })

  test('have the labels of the cache selectors restored, and keep other labels', async () => {
    await mint()
    const minted = await credentials()
    if (minted === undefined) throw new Error('there are no credentials')
    await it.cluster.replace('Secret', { ...minted, metadata: { ...minted.metadata, labels: { theirs: 'yes' } } })
    await mint()
    expect(await credentials()).toMatchObject({
      metadata: { labels: { ...minted.metadata.labels, theirs: 'yes' } },
      data: minted.data,
    })
  })

  test('that exist without labels have them restored, and are not created', async () => {
    const find = () => passOf({ pass: { keys } }).do({ do: 'find-credentials' })
    expect(await find()).toBe('done')
    expect(await credentials()).toBeUndefined()
    await mint()
    const minted = await credentials()
    if (minted === undefined) throw new Error('there are no credentials')
    await it.cluster.replace('Secret', { ...minted, metadata: { ...minted.metadata, labels: {} } })
    expect(await find()).toBe('done')
    expect(await credentials()).toMatchObject({ metadata: { labels: minted.metadata.labels ?? {} }, data: minted.data })
  })

  test('are not created without the sealing key', async () => {
    expect(await passOf().do({ do: 'mint-credentials' })).toBe('done')
    expect(await credentials()).toBeUndefined()
  })

  test('are not created before the database has its id', async () => {
    const unsettled = passOf({ observed: { owner: undefined }, pass: { keys } })
    await expect(unsettled.do({ do: 'mint-credentials' })).rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
    expect(await credentials()).toBeUndefined()
  })

  const rewrite = (action: Action, observed: Secret | undefined, given: Pass['keys'] = keys) =>
    passOf({ children: { credentials: observed }, pass: { keys: given, access: locking, target: locked } }).do(action)
  const locked = { host: '127.0.0.1' } as NonNullable<Pass['target']>
  const locking = { withRolesLocked: (_: unknown, work: () => Promise<void>) => work() } as unknown as PostgresAccess
  const rotate: Action = { do: 'rotate-passwords', rotations: { app: 'first' } }
  /** The current Secret, and its content. */
  async function known() {
    const secret = await credentials()
    if (secret === undefined) throw new Error('there are no credentials')
    return { secret, passwords: openCredentials(secret, sealingKey), fields: Object.keys(secret.data ?? {}) }
  }

  test('are rotated, restored and removed only in the observed Secret', async () => {
    await mint()
    const minted = await known()
    expect(await rewrite(rotate, minted.secret)).toBe('done')
    const rotated = await known()
    expect(rotated.passwords).toEqual({ ...minted.passwords, app: expect.any(String) })
    expect(rotated.passwords.app).not.toBe(minted.passwords.app)
    expect(await rewrite({ do: 'take-back-passwords', roles: ['app'] }, rotated.secret)).toBe('done')
    const back = await known()
    expect([back.passwords, back.fields]).toEqual([minted.passwords, minted.fields])
    await rewrite(rotate, back.secret)
    const again = await known()
    expect(again.fields).not.toEqual(minted.fields)
    expect(await rewrite({ do: 'forget-previous-passwords' }, again.secret)).toBe('done')
    const forgotten = await known()
    expect([forgotten.passwords, forgotten.fields]).toEqual([again.passwords, minted.fields])
    await expect(rewrite(rotate, minted.secret)).rejects.toThrow(expect.objectContaining({ reason: 'Conflict' }))
    expect(await credentials()).toEqual(forgotten.secret)
  })

  test('are not rotated without the sealing key, or if no Secret was observed', async () => {
    await mint()
    const { secret } = await known()
    expect(await rewrite(rotate, undefined)).toBe('done')
    expect(await rewrite(rotate, secret, { sealingKey: undefined, authority: undefined })).toBe('done')
    expect(await credentials()).toEqual(secret)
  })
})

describe('a certificate', () => {
  test('is issued by the current authority, and not without one', async () => {
    const names = { dnsNames: ['one.db.test'], ipAddresses: [] }
    const get = () => it.cluster.get('Secret', key(childNames.tls(it.owner.id)))
    expect(await passOf().do({ do: 'issue-certificate', names })).toBe('done')
    expect(await get()).toBeUndefined()
    const keys = () => ({ sealingKey: undefined, authority: trustIn(createAuthority()) })
    expect(await passOf({ executor: { keys } }).do({ do: 'issue-certificate', names })).toBe('done')
    const certificate = await get()
    expect(certificate && fingerprintOf(certificate)).toMatch(/^([0-9A-F]{2}:){31}[0-9A-F]{2}$/)
  })

  test('is marked as loaded only if it is the certificate that Postgres presents', async () => {
    const keys = () => ({ sealingKey: undefined, authority: trustIn(createAuthority()) })
    await passOf({ executor: { keys } }).do({ do: 'issue-certificate', names: { dnsNames: ['a'], ipAddresses: [] } })
    const get = async () => it.cluster.get('Secret', key(childNames.tls(it.owner.id)))
    const certificate = await get()
    const fingerprint = (certificate && fingerprintOf(certificate)) ?? ''
    const note = (shown: string, of: typeof certificate) =>
      passOf({ children: { certificate: of } }).do({ do: 'note-loaded', fingerprint: shown })
    expect([await note('another', certificate), await note(fingerprint, undefined)]).toEqual(['done', 'done'])
    expect(await get()).toEqual(certificate)
    expect(await note(fingerprint, certificate)).toBe('done')
    const noted = await get()
    expect(noted?.metadata.annotations).toEqual({
      ...certificate?.metadata.annotations,
      [loadedAnnotation]: fingerprint,
    })
    await expect(note(fingerprint, certificate), 'not on a certificate that was issued later').rejects.toThrow(
      expect.objectContaining({ reason: 'Conflict' }),
    )
  })
})

test('ports are reserved and released for the owner', async () => {
  const calls: unknown[] = []
  const ports: Executor['ports'] = {
    claim: async (_, whose, region, preferred) => void calls.push([whose.uid, region?.metadata.name, preferred]),
    leave: async (_, { port, uid }) => void calls.push([port, uid]),
  }
  expect(await passOf({ executor: { ports } }).do({ do: 'claim-port', preferred: 5432 })).toBe('done')
  expect(await passOf({ executor: { ports } }).do({ do: 'leave-port', port: 5433, uid: 'route-uid' })).toBe('done')
  expect(calls).toEqual([
    [it.owner.uid, 'here', 5432],
    [5433, 'route-uid'],
  ])
})
