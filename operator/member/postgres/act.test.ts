/** Changes to a Postgres over a connection: which functions are called, and when the operator skips a change. */
import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { childNames, firstMember } from '../../../crds/index.ts'
import { credentialsDraft, rotated } from '../../endpoint/credentials.ts'
import type { ReadDesiredRoles } from '../../postgres/administrator.ts'
import { key, useActions } from '../../testing/actions.ts'
import { testNamespace } from '../../testing/installation.ts'
import type { Pass } from '../../workload/act.ts'
import { memberKeyOf } from '../member.ts'
import type { PostgresAccess } from './access.ts'

const it = useActions()
const { passOf } = it

describe('a change to Postgres', () => {
  const memberKey = () => memberKeyOf(`${testNamespace}/${it.database.metadata.name}`, firstMember)
  const target = { host: '127.0.0.1' } as NonNullable<Pass['target']>
  const passwords = { admin: 'a', app: 'b', app_read_only: 'c' }
  const readable = {
    state: 'readable' as const,
    passwordVersion: 'mark-1',
    mintedAt: '2026-01-01T00:00:00Z',
    rotations: {},
    previous: [],
  }

  function recording(fails = false) {
    const calls: unknown[] = []
    const call = (what: unknown): Promise<never[]> => {
      calls.push(what)
      return fails ? Promise.reject(new Error('no')) : Promise.resolve([])
    }
    const access = {
      reload: (whom: unknown) => call(['reload', whom]),
      dropInherited: (whom: unknown) => call(['detach', whom]),
      open: async (whom: unknown, desired: ReadDesiredRoles) => call(['open', whom, await desired()]),
      ensureRoles: async (whom: unknown, desired: ReadDesiredRoles, _: unknown, { opens }: { opens?: true }) =>
        call([opens ? 'roles and open' : 'roles', whom, await desired()]),
    } as unknown as PostgresAccess
    return { calls, access }
  }

  test('passes the current passwords and their version to each call, and outdates the last probe', async () => {
    const { calls, access } = recording()
    const sealingKey = randomBytes(32)
    const pass = passOf({
      observed: { credentials: readable },
      children: { credentials: await it.cluster.create('Secret', credentialsDraft(it.owner, sealingKey, passwords)) },
      executor: { keys: () => ({ sealingKey, authority: undefined }) },
      pass: { access, target, passwords },
    })
    // The Secret was replaced after it was observed.
    const secret = await it.cluster.get('Secret', key(childNames.credentials(it.owner.id)))
    if (secret === undefined) throw new Error('there are no credentials')
    await it.cluster.replace('Secret', rotated(secret, sealingKey, { app: 'again' }))
    const { uid = '' } = secret.metadata
    const mcpState = { owner: it.owner.id, isRequested: false, login: undefined }
    const replaced = { ...passwords, app: expect.not.stringMatching(/^b$/) }
    const current = { passwords: replaced, passwordVersion: `${uid} app=again`, mcpState }
    for (const what of ['ensure-roles', 'reload', 'detach', 'open'] as const)
      expect(await pass.do({ do: what })).toBe('done')
    await pass.do({ do: 'ensure-roles', opens: true })
    expect(calls).toEqual([
      ['roles', target, current],
      ['reload', target],
      ['detach', target],
      ['open', target, current],
      ['roles and open', target, current],
    ])
    const outdated = [memberKey(), false]
    expect(pass.outdated).toEqual([outdated, outdated, outdated, outdated, outdated])
  })

  test('marks the last probe as outdated if it fails', async () => {
    const { access } = recording(true)
    const pass = passOf({ pass: { access, target } })
    await expect(pass.do({ do: 'reload' })).rejects.toThrow('no')
    expect(pass.outdated).toEqual([[memberKey(), true]])
  })

  test('is skipped if Postgres cannot be reached', async () => {
    const { calls, access } = recording()
    for (const pass of [
      { access, passwords },
      { target, passwords },
    ]) {
      const without = passOf({ observed: { credentials: readable }, pass })
      expect([await without.do({ do: 'reload' }), await without.do({ do: 'ensure-roles' })]).toEqual(['done', 'done'])
      expect(without.outdated).toEqual([])
    }
    expect(calls).toEqual([])
  })

  test('to the roles is skipped if the passwords are not readable', async () => {
    const { calls, access } = recording()
    const unreadable = { state: 'unreadable' as const, message: 'sealed under another key' }
    await passOf({ observed: { credentials: readable }, pass: { access, target } }).do({ do: 'ensure-roles' })
    const pass = passOf({ observed: { credentials: unreadable }, pass: { access, target, passwords } })
    await pass.do({ do: 'ensure-roles' })
    expect(calls).toEqual([])
  })
})
