import { randomBytes, X509Certificate } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Secret } from '../../cluster/index.ts'
import { databaseRoles, open, rotationsOf, SealError, secretLocation } from '../../sealing/credentials.ts'
import { trustIn } from '../authority/state.ts'
import type { Owner } from '../objects/ownership.ts'
import { createAuthority } from '../pki/index.ts'
import { certificateDraft, fingerprintOf, isGoodCertificate, issuedAt, serverNames } from './certificate.ts'
import { credentialsDraft, mintPasswords, openCredentials, rotated, takenBack, withoutPrevious } from './credentials.ts'

const owner: Owner = {
  kind: 'ManagedDatabase',
  namespace: 'n',
  name: 'one',
  uid: 'u',
  id: '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f',
  hostLabel: 'one-5e1d9a52',
}
const stored = (draft: object): Secret => ({ apiVersion: 'v1', kind: 'Secret', ...draft }) as Secret // a draft is complete

describe('credentials', () => {
  const key = randomBytes(32)
  const passwords = mintPasswords()
  const secret = stored(credentialsDraft(owner, key, passwords))

  test('are long, different and safe in a URI', () => {
    expect(new Set(Object.values(passwords)).size).toBe(3)
    for (const role of databaseRoles) expect(passwords[role]).toMatch(/^[A-Za-z0-9]{32}$/)
  })
  test('are sealed in the Secret, and can be opened', () => {
    expect(openCredentials(secret, key)).toEqual(passwords)
    const text = JSON.stringify(secret) + Buffer.from(Object.values(secret.data ?? {}).join(''), 'base64').toString()
    for (const role of databaseRoles) expect(text).not.toContain(passwords[role])
  })
  test.each<[string, Secret, Uint8Array]>([
    ['with another key', secret, randomBytes(32)],
    ['at another path', { ...secret, metadata: { ...secret.metadata, namespace: 'elsewhere' } }, key],
    ['exchanged', { ...secret, data: { ...secret.data, app: secret.data?.admin ?? '' } }, key],
    ['incomplete', { ...secret, data: { app: secret.data?.app ?? '' } }, key],
  ])('cannot be opened %s, and the error has no password', (_, damaged, withKey) => {
    expect(() => openCredentials(damaged, withKey)).toThrow(SealError)
    try {
      openCredentials(damaged, withKey)
    } catch (error) {
      for (const role of databaseRoles) expect(String(error)).not.toContain(passwords[role])
    }
  })
})

describe('a rotation', () => {
  const key = randomBytes(32)
  const passwords = mintPasswords()
  const secret = stored(credentialsDraft(owner, key, passwords))
  const during = rotated(secret, key, { app: 'first' })
  const previousOf = (of: Secret, role: string): string => {
    const field = `${role}.previous`
    const location = secretLocation(owner.namespace, of.metadata.name, field)
    return open(key, location, Buffer.from(of.data?.[field] ?? '', 'base64').toString())
  }

  test('creates a password only for its role, and keeps the previous password', () => {
    const { app, ...others } = openCredentials(during, key)
    expect(app).toMatch(/^[A-Za-z0-9]{32}$/)
    expect(app).not.toBe(passwords.app)
    expect(others).toEqual({ admin: passwords.admin, app_read_only: passwords.app_read_only })
    expect(Object.keys(during.data ?? {}).sort()).toEqual(['admin', 'app', 'app.previous', 'app_read_only'])
    expect([during.data?.admin, during.data?.app_read_only]).toEqual([secret.data?.admin, secret.data?.app_read_only])
    expect(previousOf(during, 'app')).toBe(passwords.app)
    expect(rotationsOf(during)).toEqual({ app: { rotation: 'first' } })
  })

  test('that is done removes the previous password', () => {
    const after = withoutPrevious(during)
    expect(Object.keys(after.data ?? {}).sort()).toEqual([...databaseRoles].sort())
    expect(openCredentials(after, key)).toEqual(openCredentials(during, key))
    expect(rotationsOf(after)).toEqual({ app: { rotation: 'first' } })
  })

  test('that is reverted restores the Secret, even after an earlier rotation', () => {
    const undone = takenBack(during, key, ['app'])
    expect([openCredentials(undone, key), rotationsOf(undone)]).toEqual([passwords, {}])
    expect(Object.keys(undone.data ?? {}).sort()).toEqual([...databaseRoles].sort())
    const once = withoutPrevious(during)
    const again = takenBack(rotated(once, key, { app: 'second', admin: 'third' }), key, ['app', 'admin'])
    expect(openCredentials(again, key)).toEqual(openCredentials(once, key))
    expect(rotationsOf(again)).toEqual({ app: { rotation: 'first' } })
  })

  test("that is reverted for one role keeps the other role's password", () => {
    const both = rotated(secret, key, { app: 'first', admin: 'second' })
    const one = takenBack(both, key, ['app'])
    expect(openCredentials(one, key)).toEqual({ ...openCredentials(both, key), app: passwords.app })
    expect(previousOf(one, 'admin')).toBe(passwords.admin)
    expect(rotationsOf(one)).toEqual({ admin: { rotation: 'second' } })
  })

  test.each(['no JSON', '[]', 'null', '{"app":3}', '{"app":{"rotation":3}}', '{"other":{"rotation":"x"}}'])(
    'an invalid annotation, %s, is ignored',
    recorded => {
      const annotations = { 'espalier.dev/rotations': recorded }
      expect(rotationsOf({ metadata: { annotations } })).toEqual({})
    },
  )
})

describe('a certificate', () => {
  const authority = trustIn(createAuthority())
  const start = Date.parse('2026-01-01T00:00:00Z')
  const day = 24 * 3600_000
  const names = serverNames(owner, {
    domain: 'one-5e1d9a52.db.test',
    host: '127.0.0.1',
    externalIpAddress: '192.0.2.1',
  })
  const secret = stored(certificateDraft(owner, authority, names, () => start))
  const isGood = (more: { authority?: typeof authority; names?: typeof names; days?: number } = {}) =>
    isGoodCertificate(secret, more.authority ?? authority, more.names ?? names, () => start + (more.days ?? 0) * day)

  test('has the names for clients inside and outside the cluster', () => {
    const certificate = new X509Certificate(Buffer.from(secret.data?.['tls.crt'] ?? '', 'base64'))
    for (const name of ['db-5e1d9a523f0e4b43.n.svc', 'one-5e1d9a52.db.test'])
      expect(certificate.checkHost(name), name).toBeDefined()
    for (const address of ['127.0.0.1', '192.0.2.1']) expect(certificate.checkIP(address), address).toBeDefined()
    expect(fingerprintOf(secret)).toBe(certificate.fingerprint256)
    expect(issuedAt(secret)).toBe(start)
  })
  test('is valid for its names and authority until its renewal is due', () => {
    expect(isGood()).toBe(true)
    expect(isGood({ days: 59 })).toBe(true)
    expect(isGood({ days: 61 })).toBe(false)
    expect(isGood({ authority: trustIn(createAuthority()) })).toBe(false)
    expect(isGood({ names: { ...names, dnsNames: [...names.dnsNames, 'other.test'] } })).toBe(false)
    expect(isGood({ names: { ...names, ipAddresses: ['192.0.2.2'] } })).toBe(false)
    expect(isGood()).toBe(true)
  })
  test('is not valid without its own key', () => {
    const foreign = certificateDraft(owner, authority, names, () => start)
    const mixed = { ...secret, data: { ...secret.data, 'tls.key': foreign.data?.['tls.key'] ?? '' } }
    expect(isGoodCertificate(mixed, authority, names, () => start)).toBe(false)
    expect(isGoodCertificate({ ...secret, data: {} }, authority, names, () => start)).toBe(false)
  })
})
